from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowfabric.core import contracts as c
from flowfabric.core.policy import (
    ExecutionPolicy,
    ExponentialBackoff,
    FixedBackoff,
    RetryPolicy,
    RoutingRequirements,
    TimeoutPolicy,
)
from flowfabric.core.states import PublicState
from flowfabric.errors import InvalidInput
from tests.conformance.driver import LANE, Driver


async def test_an_accepted_execution_waits_for_a_worker(driver: Driver) -> None:
    x = await driver.create(priority=3, execution_kind="llm_call")
    info = await driver.info(x)
    assert (info.public_state, info.priority, info.execution_kind) == (PublicState.WAITING, 3, "llm_call")
    assert info.created_at == driver.clock.now_ms
    assert info.started_at is info.completed_at is info.current_attempt_index is None


async def test_payload_kind_tags_and_encoding_come_back_as_given(driver: Driver) -> None:
    blob = bytes(range(256))
    x = await driver.create(input_payload=blob, payload_encoding="raw", tags={"team.color": "blue"})
    context = await driver.backend.read_execution_context(x.execution_id)
    assert (context.input_payload, context.payload_encoding) == (blob, "raw")
    assert (context.execution_kind, context.tags) == ("kind", {"team.color": "blue"})


async def test_the_same_id_is_a_duplicate(driver: Driver) -> None:
    x = await driver.create()
    before = await driver.probe.dump()
    again = await driver.backend.create_execution(_args(driver, execution_id=x.execution_id, input_payload=b"other"))
    assert again == c.ExecutionDuplicate(execution_id=x.execution_id)
    assert await driver.probe.dump() == before


async def test_an_idempotency_key_answers_the_first_execution(driver: Driver) -> None:
    first = await driver.create(idempotency_key="order-1")
    again = await driver.backend.create_execution(_args(driver, idempotency_key="order-1"))
    other = await driver.backend.create_execution(_args(driver, idempotency_key="order-2"))
    assert again == c.ExecutionDuplicate(execution_id=first.execution_id)
    assert isinstance(other, c.ExecutionCreated)


async def test_an_idempotency_key_belongs_to_its_namespace(driver: Driver) -> None:
    await driver.create(idempotency_key="order-1")
    other = await driver.backend.create_execution(_args(driver, idempotency_key="order-1", namespace="elsewhere"))
    assert isinstance(other, c.ExecutionCreated)


async def test_a_colon_in_a_namespace_does_not_reach_into_another(driver: Driver) -> None:
    await driver.create(namespace="a", idempotency_key="b:c")
    other = await driver.backend.create_execution(_args(driver, namespace="a:b", idempotency_key="c"))
    assert isinstance(other, c.ExecutionCreated)


async def test_a_delay_in_the_past_means_eligible_now(driver: Driver) -> None:
    x = await driver.create(delay_until=driver.clock.now_ms)
    assert (await driver.info(x)).public_state is PublicState.WAITING
    assert await driver.run(x)


async def test_the_policy_can_carry_the_delay(driver: Driver) -> None:
    x = await driver.create(policy=ExecutionPolicy(delay_until=driver.clock.now_ms + 1000))
    assert (await driver.info(x)).public_state is PublicState.DELAYED


async def test_a_deadline_of_the_policy_counts_from_creation(driver: Driver) -> None:
    policy = ExecutionPolicy(timeout_policy=TimeoutPolicy(execution_deadline_ms=1000))
    x = await driver.create(policy=policy, execution_deadline_at=None)
    assert isinstance(await driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE), c.NotDue)
    await driver.clock.advance(1000)
    assert isinstance(await driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE), c.ExecutionExpired)


@pytest.mark.parametrize("priority", [-1, 9001, 10**9])
async def test_a_priority_out_of_range_is_refused_not_clamped(driver: Driver, priority: int) -> None:
    with pytest.raises(InvalidInput, match="priority"):
        await driver.create(priority=priority)
    assert not await driver.probe.check()


_DELAYS = st.integers(0, 10**6)
_POLICIES = st.builds(
    ExecutionPolicy,
    max_reclaim_count=st.integers(0, 1000),
    max_replay_count=st.integers(0, 1000),
    retry_policy=st.none()
    | st.builds(
        RetryPolicy,
        max_retries=st.integers(0, 100),
        backoff=st.builds(FixedBackoff, delay_ms=_DELAYS)
        | st.builds(
            ExponentialBackoff,
            initial_delay_ms=_DELAYS,
            max_delay_ms=st.integers(10**6, 10**7),
            multiplier=st.floats(1, 100, allow_nan=False),
            jitter=st.booleans(),
        ),
    ),
    timeout_policy=st.none() | st.builds(TimeoutPolicy, attempt_timeout_ms=st.none() | st.integers(1, 10**6)),
    routing_requirements=st.none()
    | st.builds(RoutingRequirements, required_capabilities=st.sets(st.sampled_from(["gpu", "eu", "x-1"])).map(tuple)),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(policy=_POLICIES)
async def test_every_policy_that_python_accepts_is_accepted_by_the_store(
    driver: Driver, policy: ExecutionPolicy
) -> None:
    x = await driver.create(policy=policy)
    assert (await driver.info(x)).public_state is PublicState.WAITING


def _args(driver: Driver, **overrides: object) -> c.CreateExecutionArgs:
    args = {
        "execution_id": driver.mint(), "namespace": "tests", "lane_id": LANE, "execution_kind": "kind", **overrides,
    }  # fmt: skip
    return c.CreateExecutionArgs(**args)  # type: ignore[arg-type]
