"""A remote store has every port, and the API has a place for each."""

from __future__ import annotations

from flowfabric.backends.http.backend import HttpBackend
from flowfabric.backends.http.operations import OPERATIONS
from flowfabric.backends.ports import EngineBackend

# What a client makes of other operations, or of streams of events.
_MADE = {
    "follow_attempt_stream",
    "listen_for_budgets",
    "listen_for_due",
    "listen_for_work",
    "tail_events",
    "tail_flow_events",
}
_LOCAL = {"close", "kept_secret", "partitions", "within"}


def _ports() -> set[str]:
    return {name for name in dir(EngineBackend) if not name.startswith("_")}


def test_a_remote_store_has_every_port() -> None:
    assert not [name for name in _ports() - {"partitions"} if not hasattr(HttpBackend, name)]


def test_no_port_of_a_remote_store_is_an_empty_stub() -> None:
    stubs = [name for name in _ports() - {"partitions"} if getattr(HttpBackend, name) is getattr(EngineBackend, name)]
    assert not stubs


def test_every_port_is_an_operation_of_the_api() -> None:
    assert {each.port for each in OPERATIONS} == _ports() - _MADE - _LOCAL


def test_no_two_operations_share_an_address() -> None:
    addresses = [(each.method, each.path) for each in OPERATIONS]
    assert len(set(addresses)) == len(addresses)
