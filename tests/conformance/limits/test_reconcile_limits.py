"""reconcile_limits: what limits hold for nobody is released, and nothing that anybody has."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.errors import InvalidInput
from tests.conformance.limiting import Limits, finish


async def reconcile(limits: Limits, limit: int = 100) -> tuple[int, int]:
    """One pass over everything: how many were looked at, and released."""
    checked = released = 0
    for partition in await limits.backend.limit_partitions_in_use():
        cursor: str | None = None
        while True:
            args = c.ReconcileLimitsArgs(partition=partition, cursor=cursor, limit=limit)
            result = await limits.backend.reconcile_limits(args)
            checked, released, cursor = checked + result.checked, released + result.released, result.cursor
            if cursor is None:
                break
    return checked, released


@pytest.mark.parametrize("situation", ["on offer", "granted", "running", "reclaimed", "passed on", "passed on twice"])
async def test_a_slot_that_somebody_has_stays(limits: Limits, situation: str) -> None:
    quota = await limits.quota(max_concurrent=1)
    made = [await limits.submit(quotas=(quota,)) for _ in range(3)]
    match situation:
        case "on offer" | "granted":
            await limits.driver.grant(made[0])
        case "running" | "reclaimed":
            (held,) = await limits.driver.take(1)
            if situation == "reclaimed":
                await limits.driver.revoke(held)
                await limits.driver.reclaim_grant(held)
                await limits.driver.reclaim(held)
        case _:
            (held,) = await limits.driver.take(3)
            for _ in range(2 if situation == "passed on twice" else 1):
                (work,) = (await finish(limits, held, count=1)).claimed
                held = limits.driver.held(work)
            await limits.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    assert await reconcile(limits) == (1, 0)
    assert (await limits.quota_status(quota)).running == 1


@pytest.mark.parametrize(("state", "stays"), [("waiting", True), ("ended", False), ("gone", False)])
async def test_who_was_admitted_without_a_ticket_keeps_its_slot_until_it_ends(
    limits: Limits, state: str, stays: bool
) -> None:
    quota, x = await limits.quota(max_concurrent=1), await limits.driver.create()
    args = c.CheckAdmissionArgs(
        quota_policy_id=quota, execution_id=x.execution_id, window_seconds=60, rate_limit=0, concurrency_cap=1
    )
    assert await limits.backend.check_admission(args) == c.Admitted()
    if state != "waiting":
        await limits.driver.cancel(x)
    if state == "gone":
        await limits.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    assert await reconcile(limits) == (1, 0 if stays else 1)
    assert (await limits.quota_status(quota)).running == int(stays)


async def test_a_partition_of_executions_is_refused(limits: Limits) -> None:
    with pytest.raises(InvalidInput):
        await limits.backend.reconcile_limits(c.ReconcileLimitsArgs(partition=Partition(PartitionFamily.FLOW, 1)))
