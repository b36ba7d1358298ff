"""The token of the docs, `work` and `read`, is enough for a worker and for everything that a handler does."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from flowfabric import (
    Cancel,
    Claims,
    Context,
    Engine,
    ExecutionCancelled,
    Fabric,
    FixedBackoff,
    Retry,
    RetryPolicy,
    Settings,
    Snooze,
    Worker,
    open_backend,
)
from flowfabric.backends.http.operations import Scope
from flowfabric.backends.ports import EngineBackend
from flowfabric.client.secrets import ensure_secret
from flowfabric.core import contracts as c
from flowfabric.core.ids import LaneId, WorkerId, WorkerInstanceId
from flowfabric.errors import FlowFabricError
from flowfabric.server import service
from flowfabric.server.access.tokens import check_scope
from tests.server.guarded import TokenFile, guarded

WITHIN_S = 40

worker = Worker(concurrency=8)


@worker.task
async def double(number: int) -> int:
    return 2 * number


@worker.task(retry=RetryPolicy(max_retries=2, backoff=FixedBackoff(delay_ms=1)))
async def everything(ctx: Context) -> list[str]:
    await ctx.describe()
    await ctx.tags()
    ctx.progress(50, "half")
    await ctx.step("ask", str, 1)
    await ctx.now()
    await ctx.random()
    await ctx.emit("token ")
    await ctx.use(tokens=1)
    async with ctx.reserve(tokens=5) as held:
        held.used(tokens=2)
    await ctx.sleep(0.001)
    if ctx.attempt_index == 0:
        raise Retry(after=0.001)
    waitpoint = await ctx.waitpoint("approval")
    said = await ctx.wait_for_signal("go", at=waitpoint, type=str)
    return [said.payload, waitpoint.link("go")]


@worker.task
async def grows(ctx: Context) -> list[int]:
    first = ctx.flow.add(double, 1)
    second = ctx.flow.add(double, first)
    inner = ctx.flow.add_flow("inner")
    inner.add(double, 5)
    return await ctx.flow.result(ctx.flow.all([first, second]))


@worker.task
def in_a_thread(ctx: Context) -> str:
    ctx.wait(ctx.use(tokens=1))
    ctx.emit("said")
    return ctx.wait(ctx.step("ask", str, 7))


@worker.task
async def submits(ctx: Context) -> int:
    ctx.log.info("submitting")
    return await (await ctx.submit(double, 21))


@worker.task
async def gives_up(ctx: Context) -> None:
    raise Cancel("no longer needed")


@worker.task
async def naps(ctx: Context) -> str:
    if await ctx.step("first", time.monotonic) > time.monotonic() - 0.001:
        raise Snooze(for_=0.002)
    return "rested"


@dataclass
class Served:
    """A store, and the same store through a server with the worker's token."""

    direct: EngineBackend
    remote: EngineBackend
    settings: Settings  # of the remote one, with the secret that the environment of a worker may have
    refused: list[str]


@pytest.fixture
async def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    refused: list[str] = []

    def watched(token: Any, *scopes: Scope) -> None:
        try:
            check_scope(token, *scopes)
        except FlowFabricError as error:
            refused.append(error.message)
            raise

    monkeypatch.setattr(service, "check_scope", watched)
    settings = Settings(url=f"embedded://{tmp_path / 'store'}", waitpoint_secret="ab" * 32)
    direct = await open_backend(settings=settings)
    await ensure_secret(direct, settings)
    tokens = TokenFile(tmp_path / "tokens.json")
    token = tokens.add("worker", [Scope.WORK, Scope.READ])
    try:
        async with Engine(direct), guarded(direct, tokens) as http:
            over_http = replace(settings, url=str(http.base_url), token=token)
            remote = await open_backend(settings=over_http)
            yield Served(direct, remote, over_http, refused)
            await remote.close()
    finally:
        await direct.close()


async def test_everything_that_a_handler_does_is_allowed(served: Served) -> None:
    fabric = Fabric(served.direct)
    budget = await fabric.budgets.create({"tokens": 1_000})
    async with worker.working(served.settings):
        both = await fabric.submit(everything.with_options(budgets=[budget]))
        threaded = await fabric.submit(in_a_thread.with_options(budgets=[budget]))
        napping = await fabric.submit(naps)
        cancelled = await fabric.submit(gives_up)
        parent = await fabric.submit(submits)
        async with fabric.flow("growing") as flow:
            node = flow.add(grows)
        await both.signal("go", "yes", wait=WITHIN_S)
        said, link = await both.result(timeout=WITHIN_S)
        assert said == "yes"
        assert "approval" not in link
        assert await threaded.result(timeout=WITHIN_S) == "7"
        assert await napping.result(timeout=WITHIN_S) == "rested"
        assert await parent.result(timeout=WITHIN_S) == 42
        with pytest.raises(ExecutionCancelled):
            await cancelled.result(timeout=WITHIN_S)
        assert await flow.handle.node(node).result(timeout=WITHIN_S) == [2, 4]
    assert served.refused == ["the token 'worker' lacks the scope admin; it has: work, read"]  # the secret, once
    assert (await both.describe()).progress_message == "half"
    assert [item.text async for item in threaded.stream()] == ["said"]
    assert "submitting" in [record.message async for record in parent.logs()]


async def test_a_lease_that_is_driven_by_hand_may_be_cancelled(served: Served) -> None:
    handle = await Fabric(served.direct).submit("by hand")
    lane, me, here = LaneId("default"), WorkerId("hand"), WorkerInstanceId("hand-1")
    granted = await served.remote.claim_for_worker(
        c.ClaimForWorkerArgs(lane_id=lane, worker_id=me, worker_instance_id=here, grant_ttl_ms=30_000)
    )
    assert isinstance(granted, c.WorkGranted)
    claims = Claims(served.remote, worker_id=me, worker_instance_id=here)
    await (await claims.claim_from_grant(lane, granted.grant)).cancel("changed my mind")
    assert await handle.status() == "cancelled"
    assert served.refused == []


async def test_without_a_lease_the_token_cancels_nothing(served: Served) -> None:
    handle = await Fabric(served.direct).submit("someone else's")
    with pytest.raises(FlowFabricError, match="lacks the scope operate") as refused:
        await Fabric(served.remote).handle(handle.id).cancel()
    assert refused.value.code == "forbidden"
    assert await handle.status() == "waiting"


@pytest.mark.parametrize("port", ["pause", "trim", "signal"])
async def test_the_token_allows_nothing_of_operators(served: Served, port: str) -> None:
    fabric = Fabric(served.remote)
    handle = await Fabric(served.direct).submit("anything")
    calls = {
        "pause": lambda: fabric.pause_lane("default"),
        "trim": lambda: fabric.trim(keep_last=0),
        "signal": lambda: fabric.handle(handle.id).signal("go"),
    }
    with pytest.raises(FlowFabricError, match="lacks the scope"):
        await calls[port]()
