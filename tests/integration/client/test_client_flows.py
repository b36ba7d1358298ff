"""Flows through the client and a worker: data passed, joins, failures, cancels, replays and growth."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from flowfabric import Context, Fabric, Fail, SyncFabric, Worker
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.client.failures import ExecutionSkipped, FlowEnded
from flowfabric.client.flows.flow import Flow
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.partition import flow_partition
from flowfabric.core.states import PublicState
from flowfabric.errors import Conflict, InvalidInput, NotFound, Unavailable
from flowfabric.testing import FabricKit, StillOpen
from tests.server.serving import serving
from tests.worker_tasks import cpu_worker, power

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

worker = Worker(cancel_grace=0.1)


@dataclass
class Plan:
    topic: str
    queries: list[str]


class Finding(BaseModel):
    query: str
    score: int


@worker.task
async def plan(topic: str) -> Plan:
    return Plan(topic, [f"{topic}-{n}" for n in range(3)])


@worker.task
async def search(query: str, plan: Plan | None = None) -> Finding:
    return Finding(query=query, score=len(plan.queries) if plan else 0)


@worker.task
def judge(found: list[Finding], plan: Plan | None = None) -> str:
    assert all(isinstance(each, Finding) for each in found)
    return ",".join(each.query for each in found)


@worker.task
async def boom() -> str:
    raise Fail("on purpose", retryable=False)


@worker.task
async def tell(text: str | None) -> str:
    return f"told {text}"


@worker.task
async def never(seconds: int = 3600) -> Finding:
    await asyncio.sleep(seconds)
    return Finding(query="never", score=0)


@worker.task
async def grow(ctx: Context, count: int) -> list[str]:
    found = ctx.flow.map(search, [f"grown-{n}" for n in range(count)])
    ctx.flow.add(judge, ctx.flow.all(found))
    ctx.flow.add(tell, "after", after=[ctx.flow.this])
    return [node.id for node in found]


@worker.task
async def combine(name: str, parts: list[str], *, extra: dict[str, str]) -> str:
    return f"{name}({','.join([*parts, *extra.values()])})"


async def states(kit: FabricKit, flow_id: str) -> dict[str, str]:
    view = await kit.flow_handle(flow_id).view()
    return {view.labels[each.execution_id]: str(each.public_state) for each in view.members}


async def test_results_become_arguments_of_the_types_that_handlers_ask_for(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("research", tags={"team.name": "sea"}) as flow:
        made = flow.add(plan, "tides")
        found = flow.map(search, ["a", "b"], made)
        verdict = flow.add(judge, flow.all(found), made)
    await fabric_kit.run_until_idle(worker)
    assert await flow.handle == "a,b"
    assert await flow.handle.node(made) == Plan("tides", ["tides-0", "tides-1", "tides-2"])
    assert await flow.handle.node("search-2") == Finding(query="b", score=3)
    assert await fabric_kit.flow_handle(flow.id).node("judge") == await flow.handle.node(verdict)
    with pytest.raises(InvalidInput, match=r"node: must be a node of the flow, or a node's name \(got 5\)"):
        flow.handle.node(5)  # type: ignore[call-overload]
    described = await flow.handle.describe()
    assert (described.public_flow_state, described.tags) == ("completed", {"team.name": "sea"})
    assert flow.handle.submission == "created"


@pytest.mark.parametrize("seed", range(3))
async def test_random_graphs_compute_what_plain_calls_would(fabric_kit: FabricKit, seed: int) -> None:
    dice = random.Random(seed)
    expected: dict[str, str] = {}
    async with fabric_kit.flow("random") as flow:
        for number in range(25):
            known = list(flow.nodes.values())
            parts = dice.sample(known, min(len(known), dice.randrange(4)))
            extra = dice.sample(known, min(len(known), dice.randrange(3)))
            given = {node.name: node.result for node in extra}
            node = flow.add(combine, str(number), [each.result for each in parts], extra=given)
            inner = [expected[each.name] for each in (*parts, *extra)]
            expected[node.name] = f"{number}({','.join(inner)})"
    await fabric_kit.run_until_idle(worker)
    for name, value in expected.items():
        assert await flow.handle.node(name) == value


async def test_nothing_is_sent_when_the_block_raises(fabric_kit: FabricKit) -> None:
    flow = fabric_kit.flow("research")

    async def draw() -> None:
        async with flow:
            flow.add(plan, "tides")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await draw()
    with pytest.raises(InvalidInput, match="no handle yet"):
        _ = flow.handle
    with pytest.raises(NotFound):
        await fabric_kit.flow_handle(flow.id).describe()


async def test_nothing_is_sent_when_the_graph_is_refused(fabric_kit: FabricKit) -> None:
    async def draw() -> None:
        async with fabric_kit.flow("research") as flow:
            first = flow.add(plan, "tides")
            first.after(flow.add(search, "a", first))

    with pytest.raises(InvalidInput, match="cycle"):
        await draw()
    assert (await fabric_kit.flows()).flows == ()


async def test_the_same_key_is_the_same_flow(fabric_kit: FabricKit) -> None:
    for submission in ("created", "duplicate"):
        async with fabric_kit.flow("research", idempotency_key="tides-1") as flow:
            flow.add(plan, "tides")
        assert flow.handle.submission == submission
        await fabric_kit.run_until_idle(worker)
    assert [each.flow_id for each in (await fabric_kit.flows(name="research")).flows] == [flow.id]


async def test_a_submitted_flow_takes_no_more_nodes(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("research") as flow:
        node = flow.add(plan, "tides")
    with pytest.raises(InvalidInput, match="was submitted"):
        flow.add(plan, "moon")
    with pytest.raises(InvalidInput, match="was submitted already"):
        node.after(node)
    with pytest.raises(InvalidInput, match=r"was submitted already; flow\.handle"):
        await flow.submit()


async def test_flows_in_a_submitted_flow_take_no_more_nodes(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("outer") as flow:
        inner = flow.add_flow("inner")
        innermost = inner.add_flow("innermost")
        node = innermost.add(tell, "sent")
    for each in (inner, innermost):
        with pytest.raises(InvalidInput, match="was submitted"):
            each.add(tell, "lost")
        with pytest.raises(InvalidInput, match="was submitted"):
            each.add_flow("lost")
    with pytest.raises(InvalidInput, match="was submitted already"):
        node.after(node)


async def test_a_flow_that_a_handler_has_sent_takes_no_more_nodes(fabric_kit: FabricKit) -> None:
    growing = Worker()
    growing.add(tell)

    @growing.task
    async def grows(ctx: Context) -> None:
        async with ctx.flow as flow:
            inner = flow.add_flow("inner")
            inner.add(tell, "sent")
        flow.add(tell, "more")
        inner.add(tell, "lost")

    async with fabric_kit.flow("outer") as flow:
        node = flow.add(grows)
    await fabric_kit.run_until_idle(growing)
    assert "was submitted" in str((await flow.handle.node(node).describe()).failure_reason)


async def test_a_quorum_cancels_the_rest_and_gives_what_is_there(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("research") as flow:
        nodes = [*flow.map(search, ["a", "b"]), flow.add(never)]
        flow.add(judge, flow.quorum(2, nodes))
    await fabric_kit.run_until_idle(worker)
    assert await flow.handle == "a,b"
    assert (await states(fabric_kit, flow.id))["never"] == "cancelled"


async def test_what_waits_for_a_join_in_two_steps_is_skipped_with_what_stands_beside_it(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("research") as flow:
        bad = flow.add(boom)
        joined = flow.add(
            tell, "joined", after=flow.any([node.ended for node in (flow.add(tell, bad), flow.add(tell, bad))])
        )
        flow.add(judge, [], after=[joined, bad])
    await fabric_kit.run_until_idle(worker)
    found = await states(fabric_kit, flow.id)
    assert (found["tell-3"], found["judge"]) == ("completed", "skipped")


async def test_a_failure_goes_where_it_is_taken(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("research") as flow:
        bad = flow.add(boom)
        flow.add(tell, bad.ended)
        flow.add(tell, "compensated", after=bad.failed)
    await fabric_kit.run_until_idle(worker)
    assert await flow.handle.status() == "completed"
    assert await flow.handle.node("tell") == "told None"
    assert await flow.handle.node("tell-2") == "told compensated"
    with pytest.raises(InvalidInput, match="tell, tell-2"):
        await flow.handle.result()


async def test_a_failure_that_nothing_takes_fails_the_flow_and_says_why(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("research") as flow:
        bad = flow.add(boom)
        skipped = flow.add(tell, bad)
    await fabric_kit.run_until_idle(worker)
    with pytest.raises(FlowEnded, match=r"flow research .* failed with .*: on purpose") as ended:
        await flow.handle
    assert (ended.value.failed_execution_id, ended.value.state) == (bad.id, "failed")
    with pytest.raises(ExecutionSkipped):
        await flow.handle.node(skipped)


@pytest.mark.parametrize(("policy", "other"), [("continue", "completed"), ("fail_fast", "cancelled")])
async def test_the_failure_policy_decides_about_the_rest(fabric_kit: FabricKit, policy: str, other: str) -> None:
    async with fabric_kit.flow("research", failure_policy=policy) as flow:
        flow.add(boom)
        first = flow.add(plan.with_options(delay=60), "tides")
        flow.add(search, "a", first)
    await fabric_kit.run_until_idle(worker)
    await fabric_kit.advance(60)
    await fabric_kit.run_until_idle(worker)
    assert await states(fabric_kit, flow.id) == {"boom": "failed", "plan": other, "search": other}
    assert await flow.handle.wait(5) == "failed"


async def test_a_cancelled_flow_says_so(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("research") as flow:
        flow.add(search, "a", flow.add(plan, "tides"))
    result = await flow.handle.cancel("not needed", wait=True)
    assert isinstance(result, c.FlowCancelled)
    assert await flow.handle.wait() == "cancelled"
    with pytest.raises(FlowEnded, match="was cancelled: not needed"):
        await flow.handle
    with pytest.raises(Conflict):
        await flow.handle.node("plan").replay()


async def test_who_waits_learns_that_a_flow_was_closed_whose_members_stay(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("research") as flow:
        flow.add(plan, "tides")
    waiting = asyncio.create_task(flow.handle.wait(30))
    await flow.handle.status()  # the wait goes over the same line, and was there before
    await flow.handle.cancel(policy="flow_only")
    assert await waiting == "cancelled"
    assert (await flow.handle.describe()).left_count == 1


async def test_a_flow_that_was_closed_gently_says_that_it_cannot_be_cancelled_otherwise(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("research") as flow:
        node = flow.add(plan, "tides")
    await flow.handle.cancel(policy="flow_only")
    await flow.handle.cancel(policy="flow_only")  # the same again changes nothing
    with pytest.raises(Conflict, match="already cancelled with flow_only, so cancel_all has no effect") as caught:
        await flow.handle.cancel()
    assert caught.value.code == "flow_already_terminal"
    await flow.handle.node(node).cancel()
    assert (await flow.handle.describe()).left_count == 0


async def test_a_replay_runs_what_somebody_cancelled_when_that_failed_the_flow(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("research", failure_policy="fail_fast") as flow:
        first = flow.add(plan, "tides")
        flow.add(search, "a", first)
        flow.add(plan, "winds")
    await flow.handle.node(first).cancel()
    assert await flow.handle.status() == "failed"
    assert await flow.handle.replay() == [first.id]
    await fabric_kit.run_until_idle(worker)
    assert await flow.handle.status() == "completed"
    assert set((await states(fabric_kit, flow.id)).values()) == {"completed"}


async def test_a_replay_runs_what_failed_and_what_was_skipped(fabric_kit: FabricKit) -> None:
    broken = [True]
    mended = Worker()

    @mended.task
    async def flaky() -> str:
        if broken:
            raise Fail("still broken", retryable=False)
        return "mended"

    mended.add(tell)
    async with fabric_kit.flow("research") as flow:
        node = flow.add(flaky)
        flow.add(tell, node)
    await fabric_kit.run_until_idle(mended)
    broken.clear()
    assert await flow.handle.replay() == [node.id]
    await fabric_kit.run_until_idle(mended)
    assert await flow.handle == "told mended"


async def test_flows_in_flows_start_and_end_with_their_nodes(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("outer") as flow:
        first = flow.add(plan, "tides")
        inner = flow.add_flow("inner", after=first)
        inner.add(judge, inner.all(inner.map(search, ["a", "b"])))
        flow.add(tell, "done", after=inner.node)
    await fabric_kit.run_until_idle(worker)
    assert await flow.handle == "told done"
    child = fabric_kit.flow_handle(inner.flow_id)
    assert await child == "a,b"
    assert (await child.describe()).parent_execution_id == inner.node.id


@pytest.fixture
def in_between(fabric_kit: FabricKit, monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Awaitable[None]]]:
    """What happens before each flow in a flow is submitted."""
    happens: list[Callable[[], Awaitable[None]]] = []
    submit_flow = ValkeyBackend.submit_flow

    async def later(backend: ValkeyBackend, args: c.SubmitFlowArgs) -> c.SubmitFlowResult:
        for each in happens if args.parent_execution_id else ():
            await each()
        return await submit_flow(backend, args)

    monkeypatch.setattr(ValkeyBackend, "submit_flow", later)
    return happens


async def test_nothing_runs_before_the_flows_in_a_flow_are_there(
    fabric_kit: FabricKit, in_between: list[Callable[[], Awaitable[None]]]
) -> None:
    in_between.append(lambda: fabric_kit.run_until_idle(worker))
    async with fabric_kit.flow("outer") as flow:
        inner = flow.add_flow("inner", after=flow.add(boom))
        inner.map(tell, ["a", "b"])
        inner.add_flow("innermost", after=inner.add(boom)).add(tell, "c")
    assert {*(await states(fabric_kit, flow.id)).values()} == {"waiting", "waiting_children"}
    await fabric_kit.run_until_idle(worker)
    assert await states(fabric_kit, flow.id) == {"boom": "failed", "inner": "skipped"}
    assert await fabric_kit.flow_handle(inner.flow_id).status() == "cancelled"
    assert flow.handle.submission == "created"


async def test_flows_in_flows_are_submitted_over_http(fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as served, Fabric.connect(served.url) as remote:
        async with remote.flow("outer") as flow:
            inner = flow.add_flow("inner", after=flow.add(plan, "tides"))
            inner.add_flow("innermost", after=inner.add(tell, "a")).add(tell, "b")
        assert flow.handle.submission == "created"
    await fabric_kit.run_until_idle(worker)
    assert await states(fabric_kit, inner.flow_id) == {"tell": "completed", "innermost": "completed"}
    assert await fabric_kit.flow_handle(flow.id).status() == "completed"


async def test_a_flow_that_was_left_halfway_goes_on_when_it_is_submitted_again(
    fabric_kit: FabricKit, in_between: list[Callable[[], Awaitable[None]]]
) -> None:
    async def draw() -> Flow:
        async with fabric_kit.flow("outer", idempotency_key="tides") as flow:
            flow.add(tell, "outer")
            inner = flow.add_flow("inner")
            inner.add_flow("innermost").add(tell, "inner")
        return flow

    async def breaks() -> None:
        if next(calls) == 1:
            raise Unavailable("the line is cut")

    calls = itertools.count()
    in_between.append(breaks)
    with pytest.raises(Unavailable):
        await draw()
    await fabric_kit.run_until_idle(worker)
    (begun,) = (await fabric_kit.flows(name="outer")).flows
    assert not (await fabric_kit.flow_handle(begun.flow_id).describe()).is_committed
    in_between.clear()
    for submission in ("created", "duplicate"):
        assert (await draw()).handle.submission == submission
    await fabric_kit.run_until_idle(worker)
    assert await fabric_kit.flow_handle(begun.flow_id).status() == "completed"


async def test_a_flow_that_is_left_halfway_is_given_up(
    fabric_kit: FabricKit, in_between: list[Callable[[], Awaitable[None]]]
) -> None:
    async def breaks() -> None:
        raise Unavailable("the line is cut")

    async def draw() -> None:
        async with flow:
            flow.add(tell, "outer")
            flow.add_flow("inner").add(tell, "inner")

    in_between.append(breaks)
    flow = fabric_kit.flow("outer")
    with pytest.raises(Unavailable):
        await draw()
    await fabric_kit.advance(3600)
    await fabric_kit.run_until_idle(worker)
    assert await states(fabric_kit, flow.id) == {"tell": "cancelled", "inner": "cancelled"}
    assert (await fabric_kit.flow_handle(flow.id).describe()).cancel_reason == "never_committed"


async def test_a_grown_flow_whose_node_ended_before_it_came_is_left_out(
    fabric_kit: FabricKit, in_between: list[Callable[[], Awaitable[None]]]
) -> None:
    growing = Worker()
    growing.add(boom, tell)

    @growing.task
    async def grows(ctx: Context) -> str:
        bad = ctx.flow.add(boom)
        inner = ctx.flow.add_flow("inner", after=bad)
        inner.add_flow("innermost").add(tell, "inner")

        async def ends() -> None:
            await fabric_kit.backend.wait_for_execution(bad.id, timeout_ms=20_000)

        in_between.append(ends)
        return inner.node.id

    async with fabric_kit.flow("outer") as flow:
        node = flow.add(grows)
    await fabric_kit.run_until_idle(growing)
    assert await fabric_kit.handle(await flow.handle.node(node)).status() == "skipped"


async def test_a_flow_in_which_a_flow_failed_is_not_replayed_by_halves(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("outer") as flow:
        flow.add_flow("inner").add(boom)
        bad = flow.add(boom)
    await fabric_kit.run_until_idle(worker)
    with pytest.raises(Conflict, match="inner failed, and a child flow cannot be run again"):
        await flow.handle.replay()
    assert await flow.handle.node(bad).status() == "failed"


async def test_a_running_member_adds_to_its_flow(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("research") as flow:
        node = flow.add(grow, 3)
    await fabric_kit.run_until_idle(worker)
    assert await flow.handle.wait() == "completed"
    view = await flow.handle.view()
    assert sorted(each.execution_kind for each in view.members) == [
        "grow",
        "judge",
        "search",
        "search",
        "search",
        "tell",
    ]
    (verdict,) = (each for each in view.members if each.execution_kind == "judge")
    assert await fabric_kit.handle(verdict.execution_id, judge) == "grown-0,grown-1,grown-2"
    assert [each.execution_id for each in view.members if each.execution_kind == "search"] == await flow.handle.node(
        node
    )


async def test_a_handler_that_is_run_again_adds_nothing_twice(fabric_kit: FabricKit) -> None:
    dying = Worker()
    dying.add(search, judge)

    @dying.task
    async def grows(ctx: Context) -> None:
        async with ctx.flow as flow:
            flow.add(judge, flow.all(flow.map(search, ["a", "b"])))
        if ctx.attempt_index == 0:
            raise RuntimeError("after its nodes were sent")

    async with fabric_kit.flow("research") as flow:
        flow.add(grows.with_options(retry=1))
    await fabric_kit.run_until_idle(dying)
    await fabric_kit.advance(3600)
    await fabric_kit.run_until_idle(dying)
    assert await flow.handle.wait() == "completed"
    assert (await flow.handle.describe()).node_count == 4
    assert len(await flow.handle.node("grows").attempts()) == 2


@pytest.mark.parametrize(("limit", "field"), [("MAX_FLOW_MEMBERS", "members"), ("MAX_FLOW_EDGES", "edges")])
async def test_growth_that_a_flow_has_no_room_for_adds_nothing(
    fabric_kit: FabricKit, monkeypatch: pytest.MonkeyPatch, limit: str, field: str
) -> None:
    growing = Worker()
    growing.add(tell)

    @growing.task
    async def grows(ctx: Context) -> None:
        ctx.flow.map(tell, [str(n) for n in range(300)], after=ctx.flow.this.ended)

    monkeypatch.setattr(limits, limit, 299)
    async with fabric_kit.flow("research") as flow:
        node = flow.add(grows)
    await fabric_kit.run_until_idle(growing)
    assert (await flow.handle.describe()).node_count == 1
    assert f"{field}: must hold at most 299" in str((await flow.handle.node(node).describe()).failure_reason)


async def test_what_an_earlier_run_of_a_handler_added_is_counted_once(
    fabric_kit: FabricKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing = Worker()
    growing.add(tell)

    @growing.task
    async def grows(ctx: Context) -> None:
        async with ctx.flow as flow:
            flow.map(tell, [str(n) for n in range(300)])
        if ctx.attempt_index == 0:
            raise RuntimeError("after its nodes were sent")

    monkeypatch.setattr(limits, "MAX_FLOW_MEMBERS", 301)
    async with fabric_kit.flow("research") as flow:
        flow.add(grows.with_options(retry=1))
    await fabric_kit.run_until_idle(growing)
    await fabric_kit.advance(3600)
    await fabric_kit.run_until_idle(growing)
    assert await flow.handle.wait() == "completed"


async def test_a_worker_that_dies_after_its_nodes_were_sent_adds_nothing_twice(fabric_kit: FabricKit) -> None:
    dying = Worker()
    dying.add(search, judge)

    @dying.task
    async def grows(ctx: Context) -> None:
        async with ctx.flow as flow:
            flow.add(judge, flow.all(flow.map(search, ["a", "b"])))
        if ctx.attempt_index == 0:
            await fabric_kit.kill_worker(dying)

    async with fabric_kit.flow("research") as flow:
        flow.add(grows)
    await fabric_kit.run_until_idle(dying)
    await fabric_kit.advance(30)
    await fabric_kit.run_until_idle(dying)
    assert await flow.handle.wait() == "completed"
    assert (await flow.handle.describe()).node_count == 4


async def test_what_a_failed_handler_added_is_not_sent(fabric_kit: FabricKit) -> None:
    failing = Worker()
    failing.add(tell)

    @failing.task
    async def fails(ctx: Context) -> None:
        ctx.flow.add(tell, "never")
        raise Fail("before its return", retryable=False)

    async with fabric_kit.flow("research") as flow:
        flow.add(fails)
    await fabric_kit.run_until_idle(failing)
    assert (await flow.handle.describe()).node_count == 1


async def test_a_drawn_node_is_not_awaited(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("research") as flow:
        node = flow.add(plan, "tides")
        with pytest.raises(InvalidInput, match=r"use flow\.handle\.node"):
            await node


async def test_an_execution_without_a_flow_cannot_add_to_one(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(grow, 1)
    await fabric_kit.run_until_idle(worker)
    assert "is not a member of a flow" in str((await handle.describe()).failure_reason)


async def test_a_cpu_handler_is_given_results_too(fabric_kit: FabricKit) -> None:
    lane = next(iter(cpu_worker.settings.lanes))
    async with fabric_kit.flow("research") as flow:
        three = flow.add(power.with_options(lane=lane), 3, 1)
        flow.add(power.with_options(lane=lane), three, exponent=three.result)  # type: ignore[arg-type]
    await fabric_kit.run_until_idle(cpu_worker, timeout=60)
    assert await flow.handle == 27


async def test_a_flow_lives_where_its_lane_does(fabric_kit: FabricKit) -> None:
    partitions = fabric_kit.backend.partitions
    for lane in ("default", "agents", "gpu"):
        async with fabric_kit.flow("research", lane=lane) as flow:
            inner = flow.add_flow("inner", after=flow.add(plan.with_options(lane=lane), "tides"))
            inner.add(tell.with_options(lane=lane), "inner")
        alone = await fabric_kit.submit(plan.with_options(lane=lane), "alone")
        ids = [alone.id, *(node.id for node in (*flow.nodes.values(), *inner.nodes.values()))]
        assert {each.tag for each in ids} == {flow_partition(flow.id, partitions).tag}
        assert flow_partition(inner.flow_id, partitions) == flow_partition(flow.id, partitions)


async def test_a_key_belongs_to_a_name_and_a_lane(fabric_kit: FabricKit) -> None:
    def flow_id(name: str, key: str, lane: str = "default") -> str:
        return fabric_kit.flow(name, lane=lane, idempotency_key=key).id

    ids = {flow_id("a", "b"), flow_id("a", "b", "agents"), flow_id("b", "b"), flow_id("a/b", "c"), flow_id("a", "b/c")}
    assert len(ids) == 5
    assert flow_id("a", "b", "agents") == flow_id("a", "b", "agents")
    with pytest.raises(InvalidInput, match="name: "):
        flow_id(5, "b")  # type: ignore[arg-type]


async def test_the_events_of_a_flow_are_those_of_its_members(fabric_kit: FabricKit) -> None:
    await fabric_kit.submit(plan, "alone")
    async with fabric_kit.flow("research") as flow:
        first = flow.add(plan, "tides")
        second = flow.add(search, "a", first)
    await fabric_kit.run_until_idle(worker)
    seen = [(event.execution_id, event.event) async for event in flow.handle.events()]
    assert seen.pop()[1] == "flow_completed"
    assert {each for each, _ in seen} == {first.id, second.id}
    assert [each for each, event in seen if event == "completed"] == [first.id, second.id]


async def test_waiting_for_a_flow_ends_in_time(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("research") as flow:
        flow.add(plan, "tides")
    with pytest.raises(TimeoutError, match=r"is still open after 0\.05 seconds"):
        await flow.handle.wait(0.05)
    fabric_kit.patience = 0.05
    with pytest.raises(StillOpen, match="plan"):
        await flow.handle.wait()


async def test_the_longest_path_is_told(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("research") as flow:
        slow = flow.add(plan.with_options(delay=60), "tides")
        quick = flow.add(plan, "moon")
        last = flow.add(judge, flow.all([flow.add(search, "a", slow), flow.add(search, "b", quick)]))
    for _ in range(2):
        await fabric_kit.run_until_idle(worker)
        await fabric_kit.advance(60)
    view = await flow.handle.view()
    assert [view.labels[each] for each in view.critical_path] == ["plan", "search", "judge"]
    assert (view.critical_path[-1], view.duration_ms) == (last.id, 60_000)


def test_scripts_draw_flows_too(fabric_store: Settings) -> None:
    with SyncFabric.connect(fabric_store) as fabric:
        with fabric.flow("research") as flow:
            node = flow.add(judge, flow.all(flow.map(search, ["a", "b"])))
        assert flow.handle.submission == "created"
        assert flow.handle.node(node).status() is PublicState.WAITING_CHILDREN
        flow.handle.cancel(wait=True)
        assert fabric.flow_handle(flow.id).wait() == "cancelled"
        with pytest.raises(FlowEnded):
            flow.handle.result()
