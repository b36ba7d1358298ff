"""Slots, reservations and limits whose keys were lost or left behind: a round puts the counts right."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.backends.valkey.library import keys
from flowfabric.core import contracts as c
from flowfabric.core.ids import QuotaPolicyId
from flowfabric.core.partition import quota_partition
from flowfabric.core.states import PublicState
from tests.conformance.driver import BACKOFF, Subject
from tests.conformance.limiting import finish, ids, public
from tests.conformance.limits.test_reconcile_limits import reconcile
from tests.valkey.driver import Limits

LEAKED = 1_700_000_000_000  # a ticket that no record has


async def leak(limits: Limits, quota: QuotaPolicyId, who: str, suffix: str = "", *, guarded: bool = True) -> None:
    """A slot as a step has left it that nobody pays for."""
    key, client = keys.quota(quota, limits.backend.partitions), limits.backend.client
    await client.execute("SADD", f"{key}:admitted_set{suffix}", who, key=key)
    if suffix:
        await client.execute("ZADD", f"{key}:counted", 0, suffix, key=key)
    if guarded:
        await client.execute("SET", f"{key}:admitted:{who}", suffix, key=key)


async def slot_of(limits: Limits, x: Subject, **changes: Any) -> None:
    (taken,) = await limits.driver.take(1, **changes)
    assert taken.execution_id == x.execution_id


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("state", ["waiting", "running", "ended", "gone"])
async def test_a_slot_whose_ticket_no_record_has_is_released(limits: Limits, state: str, guarded: bool) -> None:
    quota = await limits.quota(max_concurrent=2)
    x = await limits.submit(quotas=(quota,))
    held = 0
    if state == "running":
        await slot_of(limits, x)
        held = 1
    if state in ("ended", "gone"):
        await limits.driver.cancel(x)
    if state == "gone":
        await limits.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    await leak(limits, quota, f"{x.execution_id}#{LEAKED}", guarded=guarded)
    assert await reconcile(limits) == (held + 1, 1)
    assert (await limits.quota_status(quota)).running == held
    assert await reconcile(limits) == (held, 0)


async def test_what_waits_for_a_lost_slot_is_let_go(limits: Limits) -> None:
    quota = await limits.quota(max_concurrent=1)
    x = await limits.submit(quotas=(quota,))
    await leak(limits, quota, f"{x.execution_id}#{LEAKED}")
    assert await limits.driver.take(1) == []
    assert await public(limits, x) is PublicState.RATE_LIMITED
    await reconcile(limits)
    assert ids(await limits.driver.take(1)) == [x.execution_id]


async def test_slots_of_all_keys_are_looked_at_and_keys_without_any_forgotten(limits: Limits) -> None:
    quota = await limits.quota(max_concurrent=1, key_by=c.QuotaKey.EXECUTION_KIND)
    made = [await limits.submit(quotas=(quota,), execution_kind=f"k{number}") for number in range(7)]
    taken = await limits.driver.take(7)
    for x in taken[:5]:
        await limits.driver.complete(x)
        await limits.drain(x)
    for number in range(5, 12):
        await leak(limits, quota, f"{made[0].execution_id}#{LEAKED + number}", f":execution_kind:k{number}")
    assert await reconcile(limits, limit=2) == (9, 7)
    key = keys.quota(quota, limits.backend.partitions)
    kinds = await limits.backend.client.execute("ZRANGE", f"{key}:counted", 0, -1, key=key)
    assert await reconcile(limits, limit=2) == (2, 0)
    left = await limits.backend.client.execute("ZRANGE", f"{key}:counted", 0, -1, key=key)
    assert (len(kinds) > 2, left) == (True, [b":execution_kind:k5", b":execution_kind:k6"])  # type: ignore[arg-type]


async def test_many_slots_are_looked_at_in_pages(limits: Limits) -> None:
    quota = await limits.quota(max_concurrent=1_000)
    x = await limits.submit(quotas=(quota,))
    await slot_of(limits, x)
    for number in range(300):
        await leak(limits, quota, f"{x.execution_id}#{LEAKED + number}")
    checked, released = await reconcile(limits, limit=50)
    assert (checked >= 301, released, (await limits.quota_status(quota)).running) == (True, 300, 1)


@pytest.mark.parametrize("ending", ["complete", "cancel", "retry"])
async def test_a_slot_that_has_passed_on_and_ended_leaves_no_trace(limits: Limits, ending: str) -> None:
    quota = await limits.quota(max_concurrent=1)
    made = [await limits.submit(quotas=(quota,)) for _ in range(2)]
    (held,) = await limits.driver.take(2)
    (work,) = (await finish(limits, held, count=1)).claimed
    held = limits.driver.held(work)
    match ending:
        case "complete":
            await limits.driver.complete(held)
        case "cancel":
            await limits.driver.cancel(held)
        case _:
            await limits.driver.fail(held, retry=True)
            await limits.driver.clock.advance(BACKOFF)
    await limits.drain(made[0])
    key = f"ff:part:{made[0].execution_id.tag}:permits"
    assert await limits.backend.client.execute("EXISTS", key, key=key) == 0
    assert (await limits.quota_status(quota)).running == 0
    await limits.probe.check()


async def test_a_place_in_the_window_stays_since_nobody_knows_whether_it_was_used(limits: Limits) -> None:
    quota = await limits.quota(window_seconds=60, max_requests_per_window=5)
    x = await limits.submit(quotas=(quota,))
    await slot_of(limits, x)
    key = keys.quota(quota, limits.backend.partitions)
    await limits.backend.client.execute("HDEL", f"ff:exec:{x.execution_id.tag}:{x.execution_id}:core", "admission",
                                        key=f"ff:exec:{x.execution_id.tag}:{x.execution_id}:core")  # fmt: skip
    assert await reconcile(limits) == (1, 1)
    assert await limits.backend.client.execute("EXISTS", f"{key}:admitted_set", key=key) == 0
    assert (await limits.quota_status(quota)).started == 1


@pytest.mark.parametrize("state", ["running", "next lease", "ended", "gone"])
async def test_a_reservation_is_released_when_its_lease_is_over(limits: Limits, state: str) -> None:
    budget = await limits.budget({"tokens": 100})
    x = await limits.driver.run(await limits.driver.create())
    await limits.reserve(budget, x, tokens=30)
    core = f"ff:exec:{x.execution_id.tag}:{x.execution_id}:core"
    if state != "running":
        await limits.backend.client.execute("HDEL", core, "reserved_budgets", key=core)  # so that nobody pays for it
    if state == "next lease":
        await limits.driver.fail(x, retry=True)
        await limits.driver.clock.advance(BACKOFF)
        await limits.driver.promote(x)
        await limits.driver.run(x)
    if state in ("ended", "gone"):
        await limits.driver.complete(x)
    if state == "gone":
        await limits.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    assert await reconcile(limits) == (1, 0 if state == "running" else 1)
    assert (await limits.status(budget)).reserved == ({"tokens": 30} if state == "running" else {})


async def test_a_limit_that_cannot_be_read_stands_in_nobodys_way(limits: Limits) -> None:
    while True:  # both in one partition, and the broken one first
        broken, quota = sorted(QuotaPolicyId.new() for _ in range(2))
        of = [quota_partition(each, limits.backend.partitions) for each in (broken, quota)]
        if of[0] == of[1]:
            break
    for each in (broken, quota):
        await limits.quota(quota_policy_id=each, max_concurrent=1)
    x = await limits.driver.create()
    for each in (broken, quota):
        await leak(limits, each, f"{x.execution_id}#{LEAKED}")
    key = keys.quota(broken, limits.backend.partitions)
    await limits.backend.client.execute("HSET", key, "active_concurrency_cap", "some", key=key)
    await reconcile(limits)
    assert (await limits.quota_status(quota)).running == 0
