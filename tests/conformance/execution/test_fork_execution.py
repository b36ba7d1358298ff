"""Fork: a new execution that begins with records of another one, which stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts.forking import FORKED_FROM_TAG
from flowfabric.core.forms import WAITPOINT_STEPS
from flowfabric.core.ids import ExecutionId
from flowfabric.core.policy import ExecutionPolicy, RetryPolicy
from flowfabric.core.rules.execution.transitions import Situation
from flowfabric.core.states import AttemptType, PublicState
from flowfabric.errors import Conflict, InvalidInput
from flowfabric.worker.durable.journal import RESERVED
from tests.conformance.driver import Driver, Subject
from tests.conformance.flowing import Graph

POLICY = ExecutionPolicy(retry_policy=RetryPolicy(max_retries=3))


async def record(driver: Driver, x: Subject, name: str, payload: bytes, occurrence: int = 0) -> None:
    step = c.StepKey(name=name, occurrence=occurrence)
    args = c.RecordStepArgs(execution_id=x.execution_id, fence=x.fence, step=step, payload=payload, input_digest="d:k")
    await driver.backend.record_step(args)


async def steps(driver: Driver, x: Subject) -> list[tuple[str, int, bytes]]:
    page = await driver.backend.read_steps(c.ReadStepsArgs(execution_id=x.execution_id))
    return [(each.name, each.occurrence, each.payload) for each in page.steps]


async def failed(driver: Driver, **create: Any) -> Subject:
    x = await driver.create(**create)
    await driver.run(x)
    for name, payload in (("plan", b"1"), (f"{RESERVED}now", b"2"), ("draft", b"3"), ("review", b"4")):
        await record(driver, x, name, payload)
    await record(driver, x, "draft", b"5", occurrence=1)
    await driver.fail(x)
    return x


async def forked(driver: Driver, x: Subject, **given: Any) -> Subject:
    result = await driver.fork(x, **given)
    assert isinstance(result, c.ExecutionForked), result
    return Subject(result.execution_id)


@pytest.mark.parametrize(
    ("from_step", "kept"),
    [(None, 5), (("plan", 0), 0), (("draft", 0), 2), (("review", 0), 3), (("draft", 1), 4)],
)
async def test_it_begins_with_the_records_before_the_step(
    driver: Driver, from_step: tuple[str, int] | None, kept: int
) -> None:
    x = await failed(driver)
    at = None if from_step is None else c.StepKey(name=from_step[0], occurrence=from_step[1])
    fork = await forked(driver, x, from_step=at)
    assert await steps(driver, fork) == (await steps(driver, x))[:kept]
    assert await driver.backend.get_execution_state(x.execution_id) is PublicState.FAILED
    assert len(await steps(driver, x)) == 5
    await driver.probe.check()


async def test_it_has_all_that_the_source_was_submitted_with(driver: Driver) -> None:
    given = {"priority": 7, "concurrency_key": "k", "tags": {"team.a": "1"}, "policy": POLICY}
    x = await failed(driver, input_payload=b"in", payload_encoding="raw", **given)
    fork = await forked(driver, x)
    mine, its = await driver.info(x), await driver.info(fork)
    for name in ("namespace", "lane_id", "execution_kind", "priority", "concurrency_key", "flow_id"):
        assert getattr(mine, name) == getattr(its, name), name
    context = await driver.backend.read_execution_context(fork.execution_id)
    assert (context.input_payload, context.payload_encoding) == (b"in", "raw")
    snapshot = await driver.backend.describe_execution(fork.execution_id)
    assert snapshot is not None
    assert snapshot.tags == {"team.a": "1", FORKED_FROM_TAG: x.execution_id}
    assert fork.execution_id.tag == x.execution_id.tag


async def test_it_may_have_another_input_and_other_results(driver: Driver) -> None:
    x = await failed(driver)
    new = c.ChangedStep(step=c.StepKey(name="plan"), payload=b"better", encoding="json")
    fork = await forked(
        driver, x, from_step=c.StepKey(name="review"), input_payload=b"other", payload_encoding="json", changed=(new,)
    )
    assert await steps(driver, fork) == [("plan", 0, b"better"), (f"{RESERVED}now", 0, b"2"), ("draft", 0, b"3")]
    assert (await steps(driver, x))[0] == ("plan", 0, b"1")
    context = await driver.backend.read_execution_context(fork.execution_id)
    assert (context.input_payload, context.payload_encoding) == (b"other", "json")


async def test_its_records_count_whatever_the_inputs_of_the_steps_are(driver: Driver) -> None:
    fork = await forked(driver, await failed(driver))
    page = await driver.backend.read_steps(c.ReadStepsArgs(execution_id=fork.execution_id))
    assert {each.input_digest for each in page.steps} == {""}


async def test_it_runs_and_records_further_steps(driver: Driver) -> None:
    x = await failed(driver)
    fork = await forked(driver, x, from_step=c.StepKey(name="review"))
    await driver.grant(fork)
    claimed = await driver.claim(fork)
    assert (claimed.attempt_index, claimed.attempt_type) == (0, AttemptType.RETRY)
    await record(driver, fork, "review", b"better")
    assert (await steps(driver, fork))[-1] == ("review", 0, b"better")
    await driver.complete(fork)
    await driver.probe.check()


async def test_without_records_it_is_a_new_execution(driver: Driver) -> None:
    fork = await forked(driver, await failed(driver), from_step=c.StepKey(name="plan"))
    await driver.grant(fork)
    assert (await driver.claim(fork)).attempt_type is AttemptType.INITIAL


async def test_what_belongs_to_the_source_alone_stays_there(driver: Driver) -> None:
    x = await driver.create()
    await driver.run(x)
    for name in (f"{WAITPOINT_STEPS}door", f"{RESERVED}spent", f"{RESERVED}random", "pay"):
        await record(driver, x, name, b"1")
    await driver.fail(x)
    assert [name for name, _, _ in await steps(driver, await forked(driver, x))] == [f"{RESERVED}random", "pay"]


async def test_the_same_call_again_makes_no_other(driver: Driver) -> None:
    x = await failed(driver)
    fork_id = ExecutionId(f"{x.execution_id.tag}:{driver.mint().uuid}")
    assert isinstance(await driver.fork(x, fork_id=fork_id), c.ExecutionForked)
    assert await driver.fork(x, fork_id=fork_id) == c.ExecutionDuplicate(execution_id=fork_id)
    with pytest.raises(InvalidInput, match="fork_id"):
        await driver.fork(x, fork_id=x.execution_id)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"from_step": c.StepKey(name="draft", occurrence=7)}, "plan#0, draft#0, review#0, draft#1"),
        (
            {
                "from_step": c.StepKey(name="draft"),
                "changed": (c.ChangedStep(step=c.StepKey(name="review"), payload=b"1"),),
            },
            "recorded before from_step",
        ),
    ],
)
async def test_a_step_that_is_not_there_is_named(driver: Driver, given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        await driver.fork(await failed(driver), **given)
    await driver.probe.check()


async def test_a_running_execution_is_not_forked(driver: Driver) -> None:
    x = await driver.reach(Situation.ACTIVE)
    with pytest.raises(Conflict) as caught:
        await driver.fork(x)
    assert (caught.value.code, caught.value.details["state"]) == ("fork_not_allowed", "active")


async def test_a_fork_of_a_member_stands_alone(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b")
    await graph.end("a", "failed")
    fork = await forked(driver, Subject(graph.ids["a"]))
    assert (await driver.info(fork)).flow_id is None
    await graph.check()
    assert await graph.flow_state() == "failed"
