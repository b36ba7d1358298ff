"""CPU tasks and worker programs that other processes import."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time

from flowfabric import tracing
from flowfabric.core.policy import FixedBackoff, RetryPolicy
from flowfabric.errors import BudgetExceeded
from flowfabric.worker import Context, Fail, Retry, Snooze, Worker, current_context, task

cpu_worker = Worker(lease_ttl_ms=3_000, processes=2, cancel_grace=20)


@cpu_worker.task(cpu=True)
def power(base: int, exponent: int) -> int:
    return int(base**exponent)


@cpu_worker.task(cpu=True)
def where(ctx: Context) -> tuple[int, int]:
    ctx.progress(50, "halfway")
    return os.getpid(), ctx.attempt_index


@cpu_worker.task(cpu=True)
def whoami() -> str:
    return str(current_context().execution_id)


@cpu_worker.task(cpu=True)
def spin(path: str) -> None:
    """Compute for ever; the file tells that it has begun."""
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    while True:
        time.monotonic()


@cpu_worker.task(cpu=True)
def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@cpu_worker.task(cpu=True)
def raises(kind: str) -> None:
    match kind:
        case "retry":
            raise Retry("busy", after=7)
        case "snooze":
            raise Snooze(for_=8)
        case "exit":
            sys.exit("enough")
        case "interrupt":
            raise KeyboardInterrupt("enough")
        case "close":
            raise GeneratorExit("enough")
        case "fail":
            raise Fail("bad", category="mine", retryable=False)
        case _:
            raise ConnectionResetError(kind)


@cpu_worker.task(cpu=True)
def returns_text() -> int:
    return "seven"  # type: ignore[return-value]


@cpu_worker.task(cpu=True)
def asks_for_a_step(ctx: Context) -> int:
    return ctx.wait(ctx.step("power", power, 2, 3))


@cpu_worker.task(cpu=True)
def emits(ctx: Context, count: int) -> int:
    for at in range(count):
        ctx.emit(str(at))
    ctx.emit({"done": count}, mode="summary")
    return count


@task
def spend_in_process(ctx: Context) -> list[str | int | None]:
    """Reports, is refused by a budget, and settles a reservation."""
    ctx.wait(ctx.use(tokens=6, calls=1))
    ctx.wait(ctx.use(tokens=6))
    with ctx.reserve(tokens=20) as held:
        held.used(tokens=7)
    try:
        ctx.wait(ctx.use(calls=1))
    except BudgetExceeded as refusal:
        return [refusal.details["dimension"], refusal.details["used"], refusal.details["limit"]]
    return []


@task
def dies_in_process(ctx: Context) -> None:
    ctx.emit("a frame")
    ctx.wait(ctx.use(tokens=3))
    with ctx.reserve(tokens=20) as held:
        held.used(tokens=5)
        ctx.wait(held.noted())
        os.kill(os.getpid(), signal.SIGKILL)


@task
def forgets_in_process(ctx: Context) -> None:
    ctx.use(tokens=1)  # type: ignore[unused-coroutine]


@task(retry=RetryPolicy(max_retries=3, backoff=FixedBackoff(delay_ms=10)))
async def nap(ms: int) -> int:
    await asyncio.sleep(ms / 1000)
    return ms


@task(retry=RetryPolicy(max_retries=100, backoff=FixedBackoff(delay_ms=10)))
async def reserving_nap(ctx: Context, ms: int) -> int:
    """Holds something of its budgets while it sleeps."""
    async with ctx.reserve(tokens=1) as held:
        await asyncio.sleep(ms / 1000)
        held.used(tokens=1)
    return ms


@task
async def endless() -> None:
    print("began", flush=True)
    await asyncio.Event().wait()


async def main(url: str, grace: float, lease_ttl_ms: int, concurrency: int) -> None:
    worker = Worker(grace=grace, lease_ttl_ms=lease_ttl_ms, concurrency=concurrency)
    worker.add(nap, reserving_nap, endless)
    running = asyncio.create_task(worker.run(url))
    while not worker.stats.calls and not running.done():  # noqa: ASYNC110 - nothing else tells that it listens
        await asyncio.sleep(0.01)
    print("ready", flush=True)
    await running
    print("ended", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))


@cpu_worker.task(cpu=True)
def traced_by() -> str | None:
    """The span that this process works for."""
    return tracing.current_parent()


@task
def talk(ctx: Context, word: str) -> None:
    """Logs, prints, and logs elsewhere."""
    ctx.log.info("log %s", word)
    print("print", word)
    logging.getLogger("app.child").warning("app %s", word)
