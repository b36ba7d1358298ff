"""What the functions of the library say of the events they write."""

from __future__ import annotations

from flowfabric.backends.valkey.library.bundle import bundle
from flowfabric.core import contracts as c


def test_every_event_a_function_can_write_has_a_kind() -> None:
    written = {event for spec in bundle().functions.values() for event in spec.events}
    assert written <= set(c.EventKind)


def test_what_the_wire_does_not_know_is_optional() -> None:
    for operation, positions in (("register_worker", (3, 6)), ("heartbeat_worker", (2, 1))):
        spec = bundle().functions[operation]
        assert len(spec.keys) == positions[0]
        assert all(arg.optional or arg.default is not None for arg in spec.args[positions[1] :])
