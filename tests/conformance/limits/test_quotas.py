"""Quota policies: a sliding window and true concurrency, admitted once each, and given back by their own ticket."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import QuotaPolicyId
from flowfabric.errors import InvalidInput, NotFound
from tests.conformance.driver import Subject
from tests.conformance.limiting import Limits


async def check(
    limits: Limits, quota: QuotaPolicyId, x: Subject, *, window: int = 0, rate: int = 0, cap: int = 0, **more: Any
) -> c.CheckAdmissionResult:
    args = c.CheckAdmissionArgs(
        quota_policy_id=quota, execution_id=x.execution_id, window_seconds=window, rate_limit=rate,
        concurrency_cap=cap, **more,
    )  # fmt: skip
    return await limits.backend.check_admission(args)


async def release(limits: Limits, quota: QuotaPolicyId, x: Subject, **more: Any) -> c.ReleaseAdmissionResult:
    args = c.ReleaseAdmissionArgs(quota_policy_id=quota, execution_id=x.execution_id, **more)
    return await limits.backend.release_admission(args)


def somebody(limits: Limits) -> Subject:
    return Subject(limits.driver.mint())


async def test_a_policy_says_what_it_was_given(limits: Limits) -> None:
    quota = await limits.quota(
        window_seconds=60, max_requests_per_window=100, max_concurrent=10, jitter_ms=5, key_by=c.QuotaKey.NAMESPACE
    )
    assert await limits.quota_status(quota, "tests") == c.QuotaStatus(
        quota_policy_id=quota, window_seconds=60, max_requests_per_window=100, max_concurrent=10, jitter_ms=5,
        key_by="namespace", created_at=limits.driver.clock.now_ms, room=10,
    )  # fmt: skip
    again = c.CreateQuotaPolicyArgs(quota_policy_id=quota, max_concurrent=1)
    assert await limits.backend.create_quota_policy(again) == c.QuotaPolicyAlreadySatisfied(quota_policy_id=quota)
    assert (await limits.quota_status(quota)).max_concurrent == 10


async def test_policies_are_listed_by_id(limits: Limits) -> None:
    made = sorted([await limits.quota(max_concurrent=1) for _ in range(4)])
    assert await limits.backend.list_quota_policies() == made
    assert await limits.backend.list_quota_policies(after=made[0], limit=2) == made[1:3]


async def test_limits_change_while_the_policy_is_in_use(limits: Limits) -> None:
    quota = await limits.quota(max_concurrent=1, jitter_ms=5)
    args = c.ConfigureQuotaPolicyArgs(
        quota_policy_id=quota, window_seconds=1, max_requests_per_window=7, max_concurrent=0
    )
    await limits.backend.configure_quota_policy(args)
    status = await limits.quota_status(quota)
    assert (status.window_seconds, status.max_requests_per_window, status.max_concurrent) == (1, 7, 0)
    assert status.jitter_ms == 0


async def test_one_that_is_not_there_is_not_one_without_limits(limits: Limits) -> None:
    with pytest.raises(NotFound) as caught:
        await limits.quota_status(QuotaPolicyId.new())
    assert caught.value.code == "quota_policy_not_found"


async def test_the_window_tells_exactly_when_it_has_room(limits: Limits) -> None:
    quota, x = await limits.quota(max_concurrent=1), somebody(limits)
    for _ in range(2):
        assert await check(limits, quota, somebody(limits), window=10, rate=2) == c.Admitted()
        await limits.driver.clock.advance(1_500)
    assert await check(limits, quota, x, window=10, rate=2) == c.RateExceeded(retry_after_ms=7_000)
    await limits.driver.clock.advance(6_999)
    assert await check(limits, quota, x, window=10, rate=2) == c.RateExceeded(retry_after_ms=1)
    await limits.driver.clock.advance(1)
    assert await check(limits, quota, x, window=10, rate=2) == c.Admitted()
    other = somebody(limits)
    assert await check(limits, quota, other, window=10, rate=2) == c.RateExceeded(retry_after_ms=1_500)


async def test_a_lower_rate_waits_for_all_that_is_too_much(limits: Limits) -> None:
    quota = await limits.quota(max_concurrent=1)
    for _ in range(3):
        await check(limits, quota, somebody(limits), window=10, rate=3)
        await limits.driver.clock.advance(1_000)
    result = await check(limits, quota, somebody(limits), window=10, rate=1)
    assert result == c.RateExceeded(retry_after_ms=9_000)


async def test_jitter_only_adds_to_the_wait(limits: Limits) -> None:
    quota = await limits.quota(max_concurrent=1)
    await check(limits, quota, somebody(limits), window=10, rate=1)
    waits = set()
    for _ in range(20):
        result = await check(limits, quota, somebody(limits), window=10, rate=1, jitter_ms=500)
        assert isinstance(result, c.RateExceeded)
        assert 10_000 <= result.retry_after_ms <= 10_500
        waits.add(result.retry_after_ms)
    assert len(waits) > 1


async def test_the_same_execution_is_admitted_once(limits: Limits) -> None:
    quota, x = await limits.quota(max_concurrent=1), somebody(limits)
    assert await check(limits, quota, x, window=10, rate=1, cap=1) == c.Admitted()
    assert await check(limits, quota, x, window=10, rate=1, cap=1) == c.AlreadyAdmitted()


async def test_slots_are_held_until_they_are_given_back(limits: Limits) -> None:
    quota, first, second = await limits.quota(max_concurrent=1), somebody(limits), somebody(limits)
    assert await check(limits, quota, first, window=1, cap=1) == c.Admitted()
    await limits.driver.clock.advance(3_600_000)
    assert await check(limits, quota, second, window=1, cap=1) == c.ConcurrencyExceeded()
    await release(limits, quota, second)
    assert await check(limits, quota, second, window=1, cap=1) == c.ConcurrencyExceeded(), "it had nothing to release"
    for _ in range(2):
        await release(limits, quota, first)
    assert await check(limits, quota, second, window=1, cap=1) == c.Admitted()
    assert await check(limits, quota, somebody(limits), window=1, cap=1) == c.ConcurrencyExceeded()


async def test_a_refusal_takes_nothing(limits: Limits) -> None:
    quota = await limits.quota(max_concurrent=1)
    await check(limits, quota, somebody(limits), window=10, rate=5, cap=1)
    before = await limits.probe.dump()
    assert await check(limits, quota, somebody(limits), window=10, rate=5, cap=1) == c.ConcurrencyExceeded()
    assert await limits.probe.dump() == before


async def test_each_ticket_is_a_slot_of_its_own_and_frees_no_other(limits: Limits) -> None:
    quota, x = await limits.quota(max_concurrent=2), somebody(limits)
    for ticket in (1, 2):
        assert await check(limits, quota, x, cap=2, ticket=ticket) == c.Admitted()
        assert await check(limits, quota, x, cap=2, ticket=ticket) == c.AlreadyAdmitted()
    for _ in range(2):
        await release(limits, quota, x, ticket=1)
    assert (await limits.quota_status(quota)).running == 1
    await release(limits, quota, x, ticket=2)
    assert (await limits.quota_status(quota)).running == 0


async def test_what_was_admitted_without_a_ticket_is_freed_by_any(limits: Limits) -> None:
    """A scheduler that knows no tickets admitted it; what its end owes has one."""
    quota, x = await limits.quota(max_concurrent=1), somebody(limits)
    assert await check(limits, quota, x, cap=1) == c.Admitted()
    args = c.ReleaseAdmissionArgs(quota_policy_id=quota, execution_id=x.execution_id, ticket=3)
    await limits.backend.release_admission(args)
    assert (await limits.quota_status(quota)).running == 0


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"window_seconds": 60}, "window_seconds"),
        ({"max_requests_per_window": 5}, "window_seconds"),
        ({"max_concurrent": -1}, "max_concurrent"),
        ({"key_by": "colour"}, "key_by"),
        ({"scope_type": "lane"}, "scope_id"),
        ({"scope_type": "flow", "scope_id": "not-a-flow"}, "scope_id"),
    ],
)
async def test_a_policy_that_makes_no_sense_is_refused(limits: Limits, given: dict[str, Any], field: str) -> None:
    before = await limits.probe.dump()
    with pytest.raises(InvalidInput, match=field):
        await limits.quota(**given)
    assert await limits.probe.dump() == before
