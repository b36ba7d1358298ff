"""Workers of other programs register with plain FCALL."""

from __future__ import annotations

import valkey

TTL = 10_000


KEY = "ff:worker:{workers}:ns:w-1"


INDEX = "ff:worker:{workers}:by_expiry"


def test_other_programs_register_at_the_positions_they_know(wire: valkey.Valkey) -> None:
    """Three keys and six arguments, two keys and one: only the names of the keys have gained a hash tag (D30)."""
    keys = [f"{KEY}:alive", f"{KEY}:caps", INDEX]
    given = ("w-1", "w", "a,b", "cpu,gpu", TTL, 1_000)
    assert wire.execute_command("FCALL", "ff_register_worker", 3, *keys, *given) == [1, b"OK", b"registered"]
    assert wire.execute_command("FCALL", "ff_register_worker", 3, *keys, *given) == [1, b"OK", b"refreshed"]
    assert wire.hgetall(f"{KEY}:caps") == {
        b"worker_id": b"w", b"lanes_csv": b"a,b", b"caps_csv": b"cpu,gpu", b"ttl_ms": b"10000",
        b"registered_at_ms": b"1000", b"last_heartbeat_ms": b"1000",
    }  # fmt: skip
    alive = wire.execute_command("FCALL", "ff_heartbeat_worker", 2, *keys[:2], 2_000)
    assert alive[:4] == [1, b"OK", b"refreshed", b"10000"]
    assert wire.execute_command("FCALL", "ff_heartbeat_worker", 2, *keys[:2], 90_000) == [1, b"OK", b"not_registered"]
