"""Handlers that wait for nodes they have added to their own flow."""

from __future__ import annotations

import pytest

from flowfabric import Context, Fail, Worker
from flowfabric.client.failures import ExecutionFailed
from flowfabric.testing import FabricKit
from flowfabric.worker.durable.child_waits import link

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

alone = Worker(concurrency=1)  # a handler that held it while it waits would wait for ever


@alone.task
async def double(number: int) -> int:
    if number < 0:
        raise Fail("too small", retryable=False)
    return 2 * number


@alone.task
async def total(ctx: Context, numbers: list[int]) -> int:
    doubled = await ctx.flow.all(ctx.flow.map(double, numbers))
    noted = await ctx.step("note", len, doubled)
    return sum(doubled) + await ctx.flow.add(double, noted)


@alone.task
async def forgiving(ctx: Context) -> str:
    node = ctx.flow.add(double, -1)
    assert await node.ended is None
    try:
        await node
    except ExecutionFailed as failure:
        return str(failure.reason)
    return ""


broken = True


@alone.task
async def fragile(number: int) -> int:
    if broken:
        raise Fail("broken", retryable=False)
    return number


@alone.task
async def trusting(ctx: Context, count: int) -> int:
    return sum(await ctx.flow.all(ctx.flow.map(fragile, range(count))))


@alone.task
def in_a_thread(ctx: Context) -> int:
    return ctx.wait(ctx.flow.result(ctx.flow.add(double, 4)))


@alone.task
async def impossible(ctx: Context, which: int) -> object:
    late = ctx.flow.add(double, 1, after=ctx.flow.this)
    given = [late, late.failed, ctx.flow.any([ctx.flow.add(double, 2)]), ctx.flow.add(double, late)]
    return await given[which]


async def test_a_handler_waits_for_nodes_that_it_added_and_holds_no_worker(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("growing") as flow:
        node = flow.add(total, [1, 2, 3])
    await fabric_kit.run_until_idle(alone)
    assert await flow.handle == 18
    view = await flow.handle.view()
    assert [each.execution_kind for each in view.members] == ["total", "double", "double", "double", "double"]
    assert len(await flow.handle.node(node).attempts()) == 1


async def test_a_handler_decides_what_the_failure_of_a_node_that_it_waits_for_means(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("growing") as flow:
        flow.add(forgiving)
    await fabric_kit.run_until_idle(alone)
    assert await flow.handle == "too small"


@pytest.mark.parametrize("count", [1, 30])
async def test_a_replayed_handler_waits_again_for_its_nodes_that_run_again(
    fabric_kit: FabricKit, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    async with fabric_kit.flow("growing") as flow:
        flow.add(trusting, count)
    await fabric_kit.run_until_idle(alone)
    assert await flow.handle.status() == "failed"
    monkeypatch.setattr(f"{__name__}.broken", False)
    assert len(await flow.handle.replay()) == count + 1
    await fabric_kit.run_until_idle(alone)
    assert await flow.handle == sum(range(count))


async def test_a_handler_in_a_thread_waits_for_nodes_too(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("growing") as flow:
        flow.add(in_a_thread)
    await fabric_kit.run_until_idle(alone)
    assert await flow.handle == 8


@pytest.mark.parametrize(
    ("which", "problem"),
    [
        (0, "depends on this handler"),
        (1, "has no result"),
        (2, "add a node that joins"),
        (3, "depends on this handler"),
    ],
)
async def test_a_handler_cannot_wait_for_what_never_comes(fabric_kit: FabricKit, which: int, problem: str) -> None:
    async with fabric_kit.flow("growing") as flow:
        node = flow.add(impossible, which)
    await fabric_kit.run_until_idle(alone)
    assert problem in str((await flow.handle.node(node).describe()).failure_reason)


async def test_a_worker_that_dies_while_it_begins_to_wait_is_replaced_by_one_that_does(fabric_kit: FabricKit) -> None:
    dying = Worker()
    dying.add(double)

    @dying.task
    async def waits(ctx: Context) -> int:
        nodes = ctx.flow.map(double, [1, 2])
        if ctx.attempt_index == 0:  # as far as to one of the edges, and no further
            await ctx.flow.send()
            await link(fabric_kit.backend, flow.id, ctx.execution_id, nodes[1].upstreams)
            await fabric_kit.kill_worker(dying)
        return sum(await ctx.flow.all(nodes))

    async with fabric_kit.flow("growing") as flow:
        flow.add(waits)
    await fabric_kit.run_until_idle(dying)
    await fabric_kit.advance(30)
    await fabric_kit.run_until_idle(dying)
    assert await flow.handle == 6


async def test_a_node_that_ended_before_it_was_waited_for_is_no_leaf(fabric_kit: FabricKit) -> None:
    late = Worker()
    late.add(double)

    @late.task
    async def looks_later(ctx: Context) -> int:
        node = ctx.flow.add(double, 5)
        await ctx.flow.send()
        await fabric_kit.handle(node.id).wait()
        return await node

    async with fabric_kit.flow("growing") as flow:
        flow.add(looks_later)
    await fabric_kit.run_until_idle(late)
    assert await flow.handle == 10
