"""Rows for the views: so many executions, flows, waiting ones, workers and budgets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from flowfabric import Context, Fabric, Handle, Worker
from flowfabric.core import contracts as c
from flowfabric.core.ids import LaneId, Namespace, WorkerId, WorkerInstanceId

worker = Worker(["default", "letters"])


@worker.task
async def greet(name: str) -> str:
    return f"hello {name}"


@dataclass
class Approval:
    """Whether it may go out."""

    approved: bool
    reason: str = ""


@dataclass
class Review:
    """What the reader makes of it."""

    verdict: Literal["good", "bad"]
    stars: int
    is_final: bool
    remark: str | None = None


@worker.task
async def decide(ctx: Context, topic: str) -> str:
    answer = await ctx.wait_for_signal("approval", type=Approval, question=f"Publish {topic}?\nIt is long.")
    return f"{answer.payload.approved} {answer.payload.reason}".strip()


@worker.task
async def review(ctx: Context, topic: str) -> str:
    answer = await ctx.wait_for_signal(
        "review", type=Review, question=f"How is {topic}?", reason="waiting_for_approval"
    )
    return f"{answer.payload.verdict} {answer.payload.stars} {answer.payload.is_final} {answer.payload.remark}"


@worker.task
async def write(ctx: Context, topic: str) -> str:
    """Says something, and asks whether that is all right."""
    draft = await ctx.step("draft", lambda: f"All about {topic}.")
    await ctx.emit(draft)
    answer = await ctx.wait_for_signal("approval", timeout=3600)
    return f"{draft} {answer.payload}"


async def executions(fabric: Fabric, count: int) -> None:
    for number in range(count):
        await fabric.submit(greet, f"person {number}")


async def flows(fabric: Fabric, count: int) -> None:
    for number in range(count):
        async with fabric.flow(f"round {number}") as flow:
            flow.add(greet, flow.add(greet, "ada"))


async def waiting(fabric: Fabric, count: int) -> None:
    handles = [await fabric.submit(write, f"topic {number}") for number in range(count)]
    async with worker.working(fabric.backend):
        for handle in handles:
            await suspended(handle)


async def suspended(handle: Handle[Any]) -> None:
    async with asyncio.timeout(20):
        async for event in handle.events():
            if event.event == "suspended":
                return


async def lanes(fabric: Fabric, count: int) -> None:
    for number in range(count):
        await fabric.submit(greet.with_options(lane=f"lane-{number}"), "ada")


async def workers(fabric: Fabric, count: int) -> None:
    for number in range(count):
        await fabric.backend.register_worker(
            c.RegisterWorkerArgs(
                namespace=Namespace("default"),
                worker_id=WorkerId("greeter"),
                worker_instance_id=WorkerInstanceId(f"greeter-{number}"),
                lanes=(LaneId("default"), LaneId("letters")),
                capabilities=("gpu",),
                slots=4,
                ttl_ms=600_000,
            )
        )


async def budgets(fabric: Fabric, count: int) -> None:
    for number in range(count):
        budget = await fabric.budgets.create({"tokens": 1000}, lane=f"lane-{number}")
        await fabric.budgets.report(budget, {"tokens": 750})


Maker = Callable[[Fabric, int], Awaitable[None]]

# Each view, what makes its rows, how a row is found, and how many are seen when there are many.
VIEWS: Final[dict[str, tuple[Maker, str, int]]] = {
    "executions": (executions, "tbody tr", 100),
    "flows": (flows, "tbody tr", 50),
    "inbox": (waiting, ".inbox > li", 25),
    "lanes": (lanes, "tbody tr", 110),
    "workers": (workers, "tbody tr", 110),
    "budgets": (budgets, ".budgets > li", 50),
}
