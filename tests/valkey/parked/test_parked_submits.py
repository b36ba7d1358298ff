"""A task that a waiting claim can have starts in the step that accepts it, and nobody can tell it from any other."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import Namespace
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements, TimeoutPolicy
from flowfabric.core.states import LaneState, PublicState
from tests.conformance.driver import LANE
from tests.valkey.driver import Driver
from tests.valkey.parked.parking import (
    ask,
    events,
    listening,
    park,
    record,
    state,
    submit,
    without_ids,
)

GPU = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))
TIMED = ExecutionPolicy(
    timeout_policy=TimeoutPolicy(attempt_timeout_ms=60_000, execution_deadline_ms=3_600_000), max_reclaim_count=7
)
OWN = {"current_lease_id", "current_attempt_id", "idempotency_key"}  # what two executions do not share

KINDS: dict[str, dict[str, Any]] = {
    "nothing said": {},
    "binary payload": {"input_payload": bytes(range(256)) * 20, "payload_encoding": "raw"},
    "no payload": {"input_payload": b""},
    "priority": {"priority": 7, "creator_identity": "somebody"},
    "tags": {"tags": {"team.name": "red", "team.size": "3"}},
    "time-outs": {"policy": TIMED},
    "capabilities": {"policy": GPU},
    "other namespace": {"namespace": Namespace("elsewhere")},
}


@pytest.mark.parametrize("kind", KINDS)
async def test_its_record_row_and_events_are_those_of_one_that_was_claimed(near: Driver, kind: str) -> None:
    capabilities: dict[str, Any] = {"worker_capabilities": ("gpu",)} if kind == "capabilities" else {}
    async with listening(near) as worker:
        parked = await park(near, **capabilities)
        (handed_id,) = await submit(near, **KINDS[kind])
        (handed,) = await worker.works(parked)
    (claimed_id,) = await submit(near, **KINDS[kind])
    (claimed,) = (await ask(near, **capabilities)).claimed
    assert (handed.execution_id, claimed.execution_id) == (handed_id, claimed_id)
    assert without_ids(handed) == without_ids(claimed)
    assert type(handed.claim) is type(claimed.claim)
    assert await events(near, handed_id) == await events(near, claimed_id) == ["created", "claimed"]
    ours, theirs = await record(near, handed_id), await record(near, claimed_id)
    assert ours.keys() == theirs.keys()
    assert {name for name in ours if ours[name] != theirs[name]} <= OWN
    await near.probe.check()
    for work in (handed, claimed):
        await near.complete(near.held(work))
    await near.probe.check()


async def test_its_key_keeps_it_from_being_submitted_twice(near: Driver) -> None:
    async with listening(near) as worker:
        parked = await park(near)
        (first,) = await submit(near, idempotency_key="once")
        (work,) = await worker.works(parked)
        again = c.CreateExecutionArgs(
            execution_id=near.mint(),
            namespace=Namespace("tests"),
            lane_id=LANE,
            execution_kind="kind",
            idempotency_key="once",
        )
        (outcome,) = await near.backend.submit_executions([again])
        assert isinstance(outcome, c.ExecutionDuplicate)
        assert outcome.execution_id == first == work.execution_id


async def test_created_alone_it_starts_as_it_does_in_a_batch_of_one(near: Driver) -> None:
    args = c.CreateExecutionArgs(
        execution_id=near.mint(), namespace=Namespace("tests"), lane_id=LANE, execution_kind="kind", input_payload=b"1"
    )
    async with listening(near) as worker:
        parked = await park(near)
        created = await near.backend.create_execution(args)
        assert isinstance(created, c.ExecutionCreated)
        assert created.public_state is PublicState.WAITING
        (work,) = await worker.works(parked)
    assert (work.execution_id, work.input_payload) == (args.execution_id, b"1")
    assert await state(near, args.execution_id) is PublicState.ACTIVE
    assert await events(near, args.execution_id) == ["created", "claimed"]
    await near.probe.check()


async def test_who_waits_before_it_goes_first(near: Driver) -> None:
    """Something stands in the queue that no claim could have while the lane was paused."""
    async with listening(near) as worker:
        parked = await park(near, count=1)
        await near.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LANE, state=LaneState.PAUSED))
        (early,) = await submit(near, priority=1)
        await near.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LANE, state=LaneState.ACTIVE))
        (late,) = await submit(near)
        assert [work.execution_id for work in await worker.works(parked)] == [early]
        assert await state(near, late) is PublicState.WAITING
    await near.probe.check()
