"""What the streams of one token cost the calls of another: submits on one connection, without them and beside them."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.figures import Spread, percentile
from benchmarks.http_calls import Caller, Process, process_of
from benchmarks.peers.report import Goal
from flowfabric.backends.http.operations import Scope
from flowfabric.server.access.tokens import new_token, write_tokens

GOAL = 1.5
SEE_ALL = 20  # of the streams; every other one has a lane of its own
SUBMIT = b'{"task":"greet","args":["tides"],"lane":"work"}'


@dataclass
class Crowd:
    """How long each submit took without the streams and beside them, by repetition."""

    alone_ms: list[list[float]] = field(default_factory=list)
    beside_ms: list[list[float]] = field(default_factory=list)

    @property
    def goal(self) -> Goal:
        pairs = zip(self.beside_ms, self.alone_ms, strict=True)
        figure = Spread.of(percentile(beside, 0.5) / percentile(alone, 0.5) for beside, alone in pairs)
        return Goal("submits beside streams of another token, p50", figure, GOAL, at_least=False)

    @property
    def p50s(self) -> dict[str, float]:
        return {"alone": _of_all(self.alone_ms, 0.5), "beside": _of_all(self.beside_ms, 0.5)}

    @property
    def row(self) -> list[str]:
        both = (self.alone_ms, self.beside_ms)
        return [f"{_of_all(each, at):.2f}" for each in both for at in (0.5, 0.99)]


def _of_all(turns: list[list[float]], at: float) -> float:
    return percentile([each for turn in turns for each in turn], at)


async def crowd(folder: str, streams: int, calls: int, repetitions: int) -> Crowd:
    """A server with two tokens: one opens streams with different filters, the other one submits."""
    greedy, other = _tokens(Path(folder) / "tokens.json")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * streams)), hard))
    command = ("server", "--port", "0", "--url", f"embedded://{folder}/crowd", "--tokens", f"{folder}/tokens.json")
    found = Crowd()
    async with process_of("flowfabric.cli", *command) as server:
        caller = await Caller.connect(server.port, other)
        await _submits(caller, calls)  # warms up
        for _ in range(repetitions):
            found.alone_ms.append(await _submits(caller, calls))
            async with _streams(server, greedy, streams):
                found.beside_ms.append(await _submits(caller, calls))
        caller.close()
    return found


def _tokens(path: Path) -> tuple[str, str]:
    greedy, entry = new_token("greedy", [Scope.READ])
    other, another = new_token("other", [Scope.SUBMIT])
    write_tokens(path, [entry, another])
    return greedy, other


async def _submits(caller: Caller, calls: int) -> list[float]:
    took = []
    for _ in range(calls):
        began = time.perf_counter()
        await caller.post("/v1/executions", SUBMIT)
        took.append((time.perf_counter() - began) * 1000)
    return took


@asynccontextmanager
async def _streams(server: Process, token: str, count: int) -> AsyncIterator[None]:
    """All of them are open and followed inside the block."""
    callers = [await Caller.connect(server.port, token) for _ in range(count)]
    opened = asyncio.Semaphore(0)
    reading = [asyncio.create_task(_read(each, _path(at), opened)) for at, each in enumerate(callers)]
    async with asyncio.timeout(60):
        for _ in range(count):
            await opened.acquire()
    try:
        yield
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        for each in callers:
            each.close()


def _path(at: int) -> str:
    return "/v1/events/stream" + ("" if at < SEE_ALL else f"?lane_id=lane-{os.getpid()}-{at}")


async def _read(caller: Caller, path: str, opened: asyncio.Semaphore) -> None:
    """The first thing that a stream tells is that it is ready."""
    is_first = True
    async for _ in caller.frames(path):
        if is_first:
            opened.release()
        is_first = False
