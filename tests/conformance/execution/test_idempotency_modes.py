"""What a submit makes of the execution that its idempotency key belongs to: on_duplicate, and delay_ms."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId, Namespace
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.rules.execution.transitions import Situation
from flowfabric.core.states import BlockingReason, EligibilityState, PublicState
from flowfabric.errors import Conflict, FlowFabricError, InvalidInput
from tests.conformance.driver import BACKOFF, LANE, Driver, Subject

M = c.DuplicateMode
GPU = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))
REPLACING = (M.REPLACE_WHILE_WAITING, M.DEBOUNCE)


def delayed_if(mode: c.DuplicateMode) -> dict[str, Any]:
    """A debounce needs a delay."""
    return {"delay_ms": BACKOFF} if mode is M.DEBOUNCE else {}


async def submit(driver: Driver, mode: c.DuplicateMode, **overrides: Any) -> c.CreateExecutionResult:
    return await driver.submit(idempotency_key="once", on_duplicate=mode, **{**delayed_if(mode), **overrides})


async def history(driver: Driver, execution_id: ExecutionId) -> list[str]:
    return [line.event for line in (await driver.backend.history(execution_id)).events]


@pytest.mark.parametrize("mode", M)
async def test_the_first_submit_creates_in_every_mode(driver: Driver, mode: c.DuplicateMode) -> None:
    assert isinstance(await submit(driver, mode), c.ExecutionCreated)


@pytest.mark.parametrize("mode", M)
async def test_the_same_id_again_is_a_duplicate_in_every_mode(driver: Driver, mode: c.DuplicateMode) -> None:
    created = await submit(driver, mode)
    before = await driver.probe.dump()
    again = await submit(driver, mode, execution_id=created.execution_id, input_payload=b"other")
    assert again == c.ExecutionDuplicate(execution_id=created.execution_id)
    assert await driver.probe.dump() == before


async def test_return_existing_is_the_default(driver: Driver) -> None:
    created = await driver.submit(idempotency_key="once", input_payload=b"old")
    again = await driver.submit(idempotency_key="once", input_payload=b"new")
    assert again == c.ExecutionDuplicate(execution_id=created.execution_id)
    assert (await driver.backend.read_execution_context(created.execution_id)).input_payload == b"old"


async def test_reject_names_the_execution_that_has_the_key(driver: Driver) -> None:
    created = await submit(driver, M.REJECT)
    before = await driver.probe.dump()
    with pytest.raises(Conflict) as caught:
        await submit(driver, M.REJECT)
    assert caught.value.code == "execution_already_exists"
    assert caught.value.details["existing_execution_id"] == created.execution_id.short
    assert created.execution_id.short in str(caught.value)
    assert await driver.probe.dump() == before


@pytest.mark.parametrize("situation", [Situation.WAITING, Situation.DELAYED])
async def test_replace_puts_the_new_content_in_place(driver: Driver, situation: Situation) -> None:
    old = await driver.reach(
        situation, idempotency_key="once", input_payload=b"old", payload_encoding="raw", priority=1,
        tags={"team.a": "1", "team.b": "2"}, execution_kind="first",
    )  # fmt: skip
    await driver.clock.advance(10)
    result = await submit(
        driver, M.REPLACE_WHILE_WAITING, input_payload=b"new", priority=7, tags={"team.b": "3"}, policy=GPU,
        execution_kind="second", creator_identity="them",
    )  # fmt: skip
    assert result == c.ExecutionReplaced(execution_id=old.execution_id, public_state=PublicState.WAITING)
    context = await driver.backend.read_execution_context(old.execution_id)
    assert context == c.ExecutionContext(input_payload=b"new", execution_kind="second", tags={"team.b": "3"})
    info = await driver.info(old)
    assert (info.priority, info.created_at) == (7, driver.clock.now_ms - 10)
    for label, found in (({"team.a": "1"}, 0), ({"team.b": "2"}, 0), ({"team.b": "3"}, 1)):
        assert len((await driver.backend.list_executions(c.ListExecutionsArgs(tags=label))).executions) == found
    assert await driver.take() == []
    (taken,) = await driver.take(worker_capabilities=("gpu",))
    assert taken.execution_id == old.execution_id
    assert (await history(driver, old.execution_id))[:2] == ["created", "replaced"]
    await driver.probe.check()


@pytest.mark.parametrize("mode", REPLACING)
@pytest.mark.parametrize(
    "situation",
    [s for s in Situation if s not in (Situation.WAITING, Situation.DELAYED) and not s.startswith("blocked")],
)
async def test_what_has_started_is_returned_as_it_is(
    driver: Driver, mode: c.DuplicateMode, situation: Situation
) -> None:
    x = await driver.reach(situation, idempotency_key="once", input_payload=b"old")
    before = await driver.probe.dump()
    assert await submit(driver, mode, input_payload=b"new") == c.ExecutionDuplicate(execution_id=x.execution_id)
    assert await driver.probe.dump() == before


@pytest.mark.parametrize("mode", REPLACING)
async def test_what_is_held_back_stays_so_with_the_new_content(driver: Driver, mode: c.DuplicateMode) -> None:
    x = await driver.reach(Situation.BLOCKED_BY_OPERATOR, idempotency_key="once", input_payload=b"old")
    result = await submit(driver, mode, input_payload=b"new", priority=4)
    assert isinstance(result, c.ExecutionReplaced)
    info = await driver.info(x)
    assert info.state_vector.blocking_reason is BlockingReason.PAUSED_BY_OPERATOR
    assert (info.blocking_detail, info.priority) == ("because", 4)
    await driver.probe.check()
    await driver.unblock(x)
    wanted = PublicState.DELAYED if mode is M.DEBOUNCE else PublicState.WAITING
    assert (await driver.info(x)).public_state is wanted


async def test_a_grant_for_the_old_content_is_void(driver: Driver) -> None:
    x = await driver.create(idempotency_key="once")
    await driver.grant(x)
    await submit(driver, M.REPLACE_WHILE_WAITING, policy=GPU)
    with pytest.raises(Conflict) as caught:
        await driver.claim(x)
    assert caught.value.code == "invalid_claim_grant"


async def test_the_deadline_is_the_new_one(driver: Driver) -> None:
    x = await driver.create(idempotency_key="once", execution_deadline_at=driver.clock.now_ms + 10)
    await submit(driver, M.REPLACE_WHILE_WAITING, execution_deadline_at=driver.clock.now_ms + 100)
    await driver.clock.advance(10)
    assert await driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE) == c.NotDue()
    await driver.clock.advance(90)
    assert isinstance(await driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE), c.ExecutionExpired)


async def test_a_burst_that_is_debounced_runs_once_after_it_has_calmed_down(driver: Driver) -> None:
    created = await submit(driver, M.DEBOUNCE, input_payload=b"0")
    for number in range(1, 5):
        await driver.clock.advance(BACKOFF - 1)
        result = await submit(driver, M.DEBOUNCE, input_payload=str(number).encode())
        assert result == c.ExecutionReplaced(execution_id=created.execution_id, public_state=PublicState.DELAYED)
    x = (await driver.backend.describe_execution(created.execution_id)) or pytest.fail("gone")
    assert x.delay_until == driver.clock.now_ms + BACKOFF
    assert len(await driver.probe.check()) == 1
    assert (await driver.backend.read_execution_context(created.execution_id)).input_payload == b"4"


async def test_a_debounce_delays_what_was_due_already(driver: Driver) -> None:
    created = await submit(driver, M.DEBOUNCE)
    await driver.clock.advance(BACKOFF)
    await driver.promote(Subject(created.execution_id))
    assert (await submit(driver, M.DEBOUNCE)) == c.ExecutionReplaced(
        execution_id=created.execution_id, public_state=PublicState.DELAYED
    )
    assert await driver.take() == []
    await driver.probe.check()


async def test_a_debounce_takes_an_instant_too(driver: Driver) -> None:
    due = driver.clock.now_ms + 50
    created = await driver.submit(idempotency_key="once", on_duplicate=M.DEBOUNCE, delay_until=due)
    await driver.submit(idempotency_key="once", on_duplicate=M.DEBOUNCE, delay_until=due + 50)
    facts = await driver.backend.explain_execution(created.execution_id)
    assert facts.delay_until == due + 50


async def test_a_delay_in_ms_counts_from_the_stores_now(driver: Driver) -> None:
    x = await driver.create(delay_ms=BACKOFF)
    assert (await driver.info(x)).public_state is PublicState.DELAYED
    assert (await driver.backend.explain_execution(x.execution_id)).delay_until == driver.clock.now_ms + BACKOFF
    assert (await driver.info(await driver.create(delay_ms=0))).public_state is PublicState.WAITING


async def test_another_lane_is_refused(driver: Driver) -> None:
    created = await submit(driver, M.REPLACE_WHILE_WAITING)
    before = await driver.probe.dump()
    with pytest.raises(InvalidInput, match="lane_id"):
        await submit(driver, M.REPLACE_WHILE_WAITING, lane_id=LaneId("other"), execution_id=driver.mint(LANE))
    assert await driver.probe.dump() == before
    assert (await driver.backend.explain_execution(created.execution_id)).lane_id == LANE


async def test_the_key_of_another_namespace_is_another_key(driver: Driver) -> None:
    await submit(driver, M.REJECT)
    assert isinstance(await submit(driver, M.REJECT, namespace=Namespace("theirs")), c.ExecutionCreated)


@pytest.mark.parametrize("mode", REPLACING)
async def test_many_at_once_leave_one_execution(driver: Driver, mode: c.DuplicateMode) -> None:
    """In the batched store they travel together: items of one batch meet each other."""
    results = await asyncio.gather(
        *(
            submit(driver, mode, input_payload=str(n).encode(), priority=n % 3, tags={"team.n": str(n)})
            for n in range(30)
        )
    )
    assert len({result.execution_id for result in results}) == 1
    states = await driver.probe.check()
    assert len(states) == 1
    (execution_id,) = {result.execution_id for result in results}
    context = await driver.backend.read_execution_context(execution_id)
    assert context.tags == {"team.n": context.input_payload.decode()}


@pytest.mark.parametrize("plain_first", [True, False])
async def test_items_of_one_batch_meet_each_other(driver: Driver, *, plain_first: bool) -> None:
    """A waiting one becomes a delayed one, or the other way round, within one call."""
    delays: list[int | None] = [None, BACKOFF] if plain_first else [BACKOFF, None]
    batch = [
        c.CreateExecutionArgs(
            execution_id=driver.mint(), namespace=Namespace("tests"), lane_id=LANE, execution_kind="kind",
            idempotency_key="once", on_duplicate=M.REPLACE_WHILE_WAITING, delay_ms=delay,
            input_payload=b"" if delay else b"in",
        )
        for delay in delays
    ]  # fmt: skip
    created, replaced = await driver.backend.submit_executions(batch)
    assert isinstance(created, c.ExecutionCreated)
    assert isinstance(replaced, c.ExecutionReplaced)
    (state,) = (await driver.probe.check()).values()
    wanted = EligibilityState.NOT_ELIGIBLE_UNTIL_TIME if plain_first else EligibilityState.ELIGIBLE_NOW
    assert state.eligibility_state is wanted
    context = await driver.backend.read_execution_context(created.execution_id)
    assert context.input_payload == (b"" if plain_first else b"in")


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"on_duplicate": M.REPLACE_WHILE_WAITING}, "idempotency_key"),
        ({"on_duplicate": M.DEBOUNCE, "delay_ms": 5}, "idempotency_key"),
        ({"on_duplicate": M.DEBOUNCE, "idempotency_key": "k"}, "delay_ms"),
        ({"on_duplicate": M.DEBOUNCE, "idempotency_key": "k", "delay_ms": 0}, "delay_ms"),
        ({"delay_ms": 5, "delay_until": 5}, "delay_ms"),
        ({"delay_ms": -1}, "delay_ms"),
        ({"on_duplicate": "overwrite"}, "on_duplicate"),
    ],
)
async def test_what_cannot_be_meant_is_refused(driver: Driver, overrides: dict[str, Any], field: str) -> None:
    with pytest.raises(FlowFabricError) as caught:
        await driver.submit(**overrides)
    assert isinstance(caught.value, InvalidInput)
    assert caught.value.field == field


MISSED = (Situation.FAILED, Situation.CANCELLED, Situation.EXPIRED)


@pytest.mark.parametrize("situation", MISSED)
async def test_until_success_a_missed_execution_loses_its_key_to_a_new_one(
    driver: Driver, situation: Situation
) -> None:
    old = await driver.reach(situation, idempotency_key="once", input_payload=b"old")
    new = await submit(driver, M.UNTIL_SUCCESS, input_payload=b"new")
    assert isinstance(new, c.ExecutionCreated)
    assert new.execution_id != old.execution_id
    again = await submit(driver, M.UNTIL_SUCCESS)
    assert again == c.ExecutionDuplicate(execution_id=new.execution_id)
    assert (await driver.backend.read_execution_context(new.execution_id)).input_payload == b"new"
    await driver.probe.check()


@pytest.mark.parametrize("situation", [each for each in Situation if each not in (*MISSED, Situation.SKIPPED)])
async def test_until_success_everything_else_keeps_its_key(driver: Driver, situation: Situation) -> None:
    x = await driver.reach(situation, idempotency_key="once")
    before = await driver.probe.dump()
    assert await submit(driver, M.UNTIL_SUCCESS) == c.ExecutionDuplicate(execution_id=x.execution_id)
    assert await driver.probe.dump() == before


async def test_until_success_the_repeated_call_of_one_that_lost_its_key_finds_it(driver: Driver) -> None:
    old = await driver.reach(Situation.FAILED, idempotency_key="once")
    new = await submit(driver, M.UNTIL_SUCCESS)
    await driver.cancel(Subject(new.execution_id))
    again = await submit(driver, M.UNTIL_SUCCESS, execution_id=old.execution_id)
    assert again == c.ExecutionDuplicate(execution_id=old.execution_id)


async def test_until_success_of_many_at_once_starts_one(driver: Driver) -> None:
    await driver.reach(Situation.FAILED, idempotency_key="once")
    made = await asyncio.gather(*(submit(driver, M.UNTIL_SUCCESS) for _ in range(10)))
    assert len({each.execution_id for each in made}) == 1
    assert [type(each) for each in made].count(c.ExecutionCreated) == 1


async def test_trimming_the_one_that_lost_its_key_leaves_the_key(driver: Driver) -> None:
    await driver.reach(Situation.FAILED, idempotency_key="once")
    new = await submit(driver, M.UNTIL_SUCCESS)
    await driver.clock.advance(10)
    await driver.backend.trim_executions(c.TrimExecutionsArgs(lane_id=LANE, older_than_ms=0))
    assert await submit(driver, M.UNTIL_SUCCESS) == c.ExecutionDuplicate(execution_id=new.execution_id)
