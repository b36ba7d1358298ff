"""Keys of idempotency keys, and the rest of what is deleted with an execution."""

from __future__ import annotations

from typing import Any

from flowfabric.core import contracts as c
from tests.valkey.driver import Driver


async def trim(driver: Driver) -> int:
    result = await driver.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    assert not result.more
    return result.deleted


async def test_an_idempotency_key_goes_with_its_execution(driver: Driver) -> None:
    x = await driver.create(idempotency_key="once")
    await driver.cancel(x)
    await trim(driver)
    assert not [key for key in await driver.probe.dump() if key.startswith(b"ff:idem:")]
    again = await driver.create(idempotency_key="once")
    assert again.execution_id != x.execution_id


async def test_an_idempotency_key_that_ran_out_and_was_used_again_stays(driver: Driver) -> None:
    first = await driver.create(idempotency_key="once")
    await driver.cancel(first)
    key = f"ff:idem:{first.execution_id.tag}:tests:once"
    await driver.backend.client.execute("DEL", key, key=key)
    second = await driver.create(idempotency_key="once")
    assert await trim(driver) == 1
    assert await driver.backend.client.execute("GET", key, key=key) == second.execution_id.encode()


async def test_what_waits_is_deleted_too(driver: Driver) -> None:
    """Keys of functions that are still to come, as the public wire names them."""
    x = await driver.run(await driver.create())
    client, tag, base = driver.backend.client, x.execution_id.tag, f"ff:exec:{x.execution_id.tag}:{x.execution_id}"
    commands: tuple[tuple[Any, ...], ...] = (
        ("HSET", f"ff:attempt:{tag}:{x.execution_id}:0:usage", "tokens", 1),
        ("HSET", f"{base}:suspension:current", "suspension_id", "s"),
        ("SADD", f"{base}:suspension:current:satisfied_set", "token"),
        ("SADD", f"{base}:suspension:current:satisfied_set:signals", "signal"),
        ("HSET", f"{base}:suspension:current:member_map", "a", "b"),
        ("SADD", f"{base}:waitpoints", "w1", "w2"),
        *(("HSET", f"ff:wp:{tag}:{name}", "state", "closed") for name in ("w1", "w2")),
        ("XADD", f"ff:wp:{tag}:w1:signals", "*", "signal_id", "s1"),
        ("HSET", f"ff:wp:{tag}:w1:condition", "closed", 1),
        ("ZADD", f"{base}:signals", 1, "s1"),
        ("HSET", f"ff:signal:{tag}:s1", "name", "go"),
        ("SET", f"ff:signal:{tag}:s1:payload", "x"),
    )
    for command in commands:
        await client.execute(*command, key=str(command[1]))
    await driver.complete(x)
    assert await trim(driver) == 1
    assert await driver.probe.left_behind() == []
