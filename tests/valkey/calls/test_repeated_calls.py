"""Calls that arrive twice or past their limits, as the function library answers them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.codec import to_msgpack
from flowfabric.core.states import PublicState
from flowfabric.errors import Conflict, ExecutionNotFound, FlowFabricError
from tests.conformance.driver import Subject, home
from tests.conformance.execution.test_trim_executions import ended
from tests.conformance.flows.test_direct_start import drawn, end_and_ask
from tests.valkey.calls.test_claim_repeats import next_ones
from tests.valkey.driver import Driver, Limits
from tests.valkey.keys.test_usual_steps import events, record


class TestOtherClaims:
    async def test_a_one_step_claim_past_the_limits_is_refused(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        x = await limits.submit(quotas=(quota,))
        args = limits.driver.one_step_args(x)
        with pytest.raises(Conflict) as caught:
            await limits.backend._claim_in_one_step(args)
        assert caught.value.details["state"] == "admission_required"
        with pytest.raises(FlowFabricError):
            await limits.backend._claim_in_one_step(args, ticket=1)


async def test_it_is_the_same_as_an_end_and_a_claim(near: Driver) -> None:
    at_once, in_turn = await drawn(near, "a>z", "a"), await drawn(near, "a>z", "a")
    assert await end_and_ask(at_once, "a") == {"z"}
    await in_turn.end("a")
    assert len(await near.take()) == 1
    z, other = Subject(at_once.ids["z"]), Subject(in_turn.ids["z"])
    assert {**await record(near, z), "flow_id": ""} == {**await record(near, other), "flow_id": ""}
    assert await events(near, z) == await events(near, other) == ["created", "unblocked", "claimed"]
    await at_once.check()


async def test_a_call_that_comes_again_gets_the_same_members(near: Driver) -> None:
    graph = await drawn(near, "a>y a>z", "a")
    fence = graph.held["a"].fence
    ending = (graph.ids["a"].uuid, fence.lease_id, str(fence.lease_epoch), fence.attempt_id, "json")
    args: dict[str, Any] = {
        "finish": to_msgpack(ending), "renew": to_msgpack(()), "claim": next_ones(4), "payloads": [b"r"],
    }  # fmt: skip
    first = await near.backend._caller.call_partition("finish_batch", home(near).tag, **args)
    before = await near.probe.dump()
    again = await near.backend._caller.call_partition("finish_batch", home(near).tag, **args)
    assert again.values[2] == first.values[2]
    assert isinstance(first.values[2], list)
    assert len(first.values[2]) == 2
    assert await near.probe.dump() == before


@pytest.mark.parametrize("first", ["trim", "replay"])
async def test_a_replay_and_a_deletion_agree_on_who_was_first(driver: Driver, first: str) -> None:
    """Both leave in one write; the server carries them out in turn."""
    x = await ended(driver)
    calls: dict[str, Any] = {
        "trim": driver.backend._caller.call_partition("trim_executions", x.execution_id.tag, older_than_ms=0, limit=10),
        "replay": driver.replay(x),
    }
    order = sorted(calls, key=lambda name: name != first)
    results: dict[str, Any] = dict(
        zip(order, await asyncio.gather(*(calls[name] for name in order), return_exceptions=True), strict=True)
    )
    deleted = results["trim"].number(0)
    if first == "trim":
        assert (deleted, type(results["replay"])) == (1, ExecutionNotFound)
        assert await driver.backend.get_execution(x.execution_id) is None
    else:
        assert (deleted, results["replay"]) == (0, c.ExecutionReplayed(public_state=PublicState.WAITING))
        assert (await driver.info(x)).public_state is PublicState.WAITING
    await driver.probe.check()
