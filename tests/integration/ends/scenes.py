"""What happens in each row of the table of ends: how the handler ends, and who else acts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from flowfabric import Cancel, Context, Fail, Handle, Retry, Worker
from flowfabric.client.tasks.task import Task
from flowfabric.core.policy import FixedBackoff, RetryPolicy
from flowfabric.testing import FabricKit
from tests.worker_tasks import dies_in_process
from tests.working import submit_with

ONCE = RetryPolicy(max_retries=1, backoff=FixedBackoff(delay_ms=1_000))
LEASE_S, TIMEOUT_S, WAIT_S = 30, 600, 60


class Scene:
    """One row: a handler pays in a step, emits, reports 3 tokens, reserves 20, uses 5 of them, and then ends."""

    def __init__(self, kit: FabricKit, row: Row) -> None:
        self.kit, self.row, self.budget = kit, row, ""
        self.worker = Worker(lease_ttl_ms=1_000 * LEASE_S, categories={ConnectionError: "network"}, processes=1)
        self.began = asyncio.Event()
        self.paid = 0
        self.limit = 1_000
        self.work = self._task()
        self.worker.add(dies_in_process, cpu=True)

    def _task(self) -> Task[..., Any]:
        @self.worker.task(timeout=TIMEOUT_S)
        async def work(ctx: Context) -> int:
            await ctx.step("pay", self._pay)
            await ctx.emit("a frame")
            await ctx.use(tokens=3)
            async with ctx.reserve(tokens=20) as held:
                held.used(tokens=5)
                await held.noted()
                self.began.set()
                ended: int = await self.row.ends(ctx)
                return ended

        return work

    async def _pay(self) -> str:
        self.paid += 1
        return "receipt"

    async def submitted(self) -> Handle[Any]:
        self.budget = await self.kit.budgets.create({"tokens": self.limit})
        self.work = self.work.with_options(budgets=[self.budget], retry=ONCE, **self.row.options)
        await self.kit.start_worker(self.worker)
        return await self.row.submits(self)


async def _submit(scene: Scene) -> Handle[Any]:
    return await scene.kit.submit(scene.work)


async def _submit_bad_arguments(scene: Scene) -> Handle[Any]:
    return await scene.kit.submit("work", "too many", budgets=[scene.budget], retry=ONCE)


async def _submit_with_one_reclaim(scene: Scene) -> Handle[Any]:
    policy = scene.work.options.policy
    assert policy is not None
    execution_id = await submit_with(scene.kit.backend, scene.work, policy=replace(policy, max_reclaim_count=1))
    return scene.kit.handle(execution_id, scene.work)


async def _submit_to_a_process(scene: Scene) -> Handle[Any]:
    return await scene.kit.submit(dies_in_process.with_options(budgets=[scene.budget], retry=ONCE))


async def _submit_after_a_failure(scene: Scene) -> Handle[Any]:
    @scene.worker.task
    async def fails() -> None:
        raise ValueError("the first one")

    await scene.kit.stop_worker(scene.worker)
    await scene.kit.start_worker(scene.worker)
    async with scene.kit.flow("two") as flow:
        first = flow.add(fails)
        second = flow.add(scene.work, after=[first])
    return flow.handle.node(second)


async def _by_itself(scene: Scene) -> None:
    """Nobody else acts."""


def _advance(seconds: float) -> Act:
    async def act(scene: Scene) -> None:
        await scene.began.wait()
        scene.began.clear()
        await scene.kit.advance(seconds)

    return act


async def _let_the_wait_time_out(scene: Scene) -> None:
    await scene.began.wait()
    await scene.kit.run_until_idle()
    scene.began.clear()
    await scene.kit.advance(WAIT_S)


async def _kill_the_worker(scene: Scene) -> None:
    await scene.began.wait()
    scene.began.clear()
    await scene.kit.kill_worker(scene.worker)
    await scene.kit.advance(LEASE_S)
    await scene.kit.start_worker(scene.worker)


async def _raise_the_limit(scene: Scene) -> None:
    """A breached budget lets no execution start, retries included, until its limit is raised."""
    scene.limit += 1_000
    await scene.kit.budgets.set_limits(scene.budget, {"tokens": scene.limit})
    await scene.kit.apply_due()


async def _cancel(scene: Scene) -> None:
    await scene.began.wait()
    (open_one,) = (await scene.kit.list(state="active")).executions
    await scene.kit.handle(open_one.execution_id).cancel("enough")


Act = Callable[[Scene], Awaitable[None]]
Ends = Callable[[Context], Awaitable[Any]]


async def _hang(_: Context) -> None:
    await asyncio.Event().wait()


def _raise(make: Callable[[], BaseException]) -> Ends:
    async def ends(_: Context) -> None:
        raise make()

    return ends


def _return(value: object) -> Ends:
    async def ends(_: Context) -> object:
        return value

    return ends


async def _exit(_: Context) -> None:
    sys.exit(1)


async def _forget(ctx: Context) -> int:
    ctx.sleep(60)  # type: ignore[unused-coroutine]
    return 7


async def _overspend(ctx: Context) -> None:
    await ctx.use(tokens=1_000_000)


def _wait(**options: Any) -> Ends:
    async def ends(ctx: Context) -> None:
        await ctx.wait_for_signal("go", timeout=WAIT_S, **options)

    return ends


def _change_steps() -> Ends:
    names = iter(("one", "another"))

    async def ends(ctx: Context) -> int:
        await ctx.step(next(names), int)
        await ctx.sleep(WAIT_S)
        return 7

    return ends


@dataclass
class Row:
    """How the handler ends, what the others do in each attempt, and how it is submitted."""

    ends: Ends = _hang
    acts: Act = _by_itself
    submits: Callable[[Scene], Awaitable[Handle[Any]]] = _submit
    options: dict[str, Any] = field(default_factory=dict)


ROWS: dict[str, Callable[[], Row]] = {
    "the handler returns": lambda: Row(_return(7)),
    "it raises an exception": lambda: Row(_raise(lambda: ValueError("bad"))),
    "it raises an exception of `categories=`": lambda: Row(_raise(lambda: ConnectionResetError("reset"))),
    "it raises `Retry`": lambda: Row(_raise(lambda: Retry("busy"))),
    'it raises `Fail(category="account")`': lambda: Row(_raise(lambda: Fail("none", category="account"))),
    "it raises `Fail(retryable=False)`": lambda: Row(_raise(lambda: Fail("none", retryable=False))),
    "it raises `TimeoutError`": lambda: Row(_raise(TimeoutError)),
    "it raises `SystemExit`": lambda: Row(_exit),
    "it raises `KeyboardInterrupt`": lambda: Row(_raise(KeyboardInterrupt)),
    "it raises `GeneratorExit`": lambda: Row(_raise(GeneratorExit)),
    "the attempt takes longer than its `timeout`": lambda: Row(acts=_advance(TIMEOUT_S)),
    "the process of a `cpu=True` handler dies": lambda: Row(submits=_submit_to_a_process),
    "its workers die, more often than `max_reclaim_count`": lambda: Row(
        acts=_kill_the_worker, submits=_submit_with_one_reclaim
    ),
    "its arguments do not fit the signature": lambda: Row(submits=_submit_bad_arguments),
    "its result does not fit the annotation": lambda: Row(_return("seven")),
    "a call of `ctx` is not awaited": lambda: Row(_forget),
    "the code no longer asks for its recorded steps": lambda: Row(_change_steps(), acts=_let_the_wait_time_out),
    "a budget refuses more": lambda: Row(_overspend, acts=_raise_the_limit),
    "a wait is not answered in time": lambda: Row(_wait(), acts=_let_the_wait_time_out),
    '… with `on_timeout="fail"`': lambda: Row(_wait(on_timeout="fail"), acts=_let_the_wait_time_out),
    '… with `on_timeout="cancel"`': lambda: Row(_wait(on_timeout="cancel"), acts=_let_the_wait_time_out),
    '… with `on_timeout="expire"`': lambda: Row(_wait(on_timeout="expire"), acts=_let_the_wait_time_out),
    "its `deadline` passes": lambda: Row(acts=_advance(60), options={"deadline": 60}),
    "it raises `Cancel`": lambda: Row(_raise(lambda: Cancel("enough"))),
    "`handle.cancel()`": lambda: Row(acts=_cancel),
    "a node that it comes after fails": lambda: Row(submits=_submit_after_a_failure),
}
