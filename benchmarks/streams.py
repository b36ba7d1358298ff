"""How long is a frame on its way, and how many go in a second? ctx.emit and handle.stream, beside raw XADD and XREAD.

    python -m benchmarks.streams [--json] [--frames 1000] [--burst 20000] [--repetitions 3]

On its way: a handler emits a frame, and the time is taken until a reader of handle.stream() has it; in turns with it,
after the same rest, an XADD until a blocking XREAD on a connection of its own has answered. In a second: one handler
emits a burst as fast as it is let, from the first emit until the store has taken the last frame; in turns with it the
same payloads as XADDs, pipelined on a connection of the same client. Store, worker and reader are an embedded server
and one process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.figures import Spread, percentile, ratio
from benchmarks.peers.report import Goal, Table, machine
from flowfabric import Context, Engine, Fabric, StreamItem, Worker
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.wire.connection import Connection

SLOWER = 5
SHARE = 0.4
WARM_UP = 50
PAUSE_S = 0.002
PIPELINE = 256
TOKEN = "a token of text "


@dataclass
class Taken:
    """What one repetition took: microseconds a frame on both ways, and frames in a second."""

    ours_us: list[float] = field(default_factory=list)
    raw_us: list[float] = field(default_factory=list)
    ours_per_s: float = 0.0
    raw_per_s: float = 0.0


class Talk:
    """A handler that emits when it is told to, and when it did so."""

    def __init__(self) -> None:
        self.wanted: asyncio.Queue[int] = asyncio.Queue()  # how many frames; 0 ends it
        self.emitted_at = 0.0
        self.worker = Worker(concurrency=4)

        @self.worker.task(name="talk")
        async def talk(ctx: Context) -> None:
            while count := await self.wanted.get():
                for _ in range(count):
                    self.emitted_at = time.perf_counter()
                    await ctx.emit(TOKEN)

        @self.worker.task(name="burst")
        async def burst(ctx: Context, count: int) -> None:
            self.emitted_at = time.perf_counter()
            for _ in range(count):
                await ctx.emit(TOKEN)


class RawReader:
    """A blocking XREAD after the other, on a connection of its own."""

    def __init__(self, connection: Connection, key: str) -> None:
        self._connection = connection
        self._key = key
        self._place: str | bytes = "0-0"

    async def next(self) -> list[Any]:
        reply: Any = await self._connection.send(
            "XREAD", "COUNT", 100, "BLOCK", 5_000, "STREAMS", self._key, self._place
        )
        entries: list[Any] = reply[0][1]
        self._place = entries[-1][0]
        return entries


@asynccontextmanager
async def raw_reader(backend: ValkeyBackend, key: str) -> AsyncIterator[RawReader]:
    connection = await backend.client.dedicated(key=key, command_timeout_ms=10_000)
    yield RawReader(connection, key)
    await connection.close()


async def on_their_way(fabric: Fabric, backend: ValkeyBackend, talk: Talk, frames: int, taken: Taken) -> None:
    handle = await fabric.submit("talk")
    items = handle.stream()
    async with raw_reader(backend, "bench:raw") as raw:
        for _ in range(WARM_UP + frames):
            taken.ours_us.append(await one_of_ours(talk, items))
            taken.raw_us.append(await one_raw(backend, raw))
    del taken.ours_us[:WARM_UP], taken.raw_us[:WARM_UP]
    talk.wanted.put_nowait(0)
    assert [item async for item in items] == []
    await handle


async def one_of_ours(talk: Talk, items: AsyncIterator[StreamItem]) -> float:
    waiting = asyncio.ensure_future(anext(items))
    await asyncio.sleep(PAUSE_S)
    talk.wanted.put_nowait(1)
    assert (await waiting).text == TOKEN
    return (time.perf_counter() - talk.emitted_at) * 1e6


async def one_raw(backend: ValkeyBackend, raw: RawReader) -> float:
    waiting = asyncio.ensure_future(raw.next())
    await asyncio.sleep(PAUSE_S)
    began = time.perf_counter()
    await backend.client.execute("XADD", "bench:raw", "*", "payload", TOKEN, key="bench:raw")
    await waiting
    return (time.perf_counter() - began) * 1e6


async def in_a_second(fabric: Fabric, backend: ValkeyBackend, talk: Talk, burst: int, taken: Taken) -> None:
    handle = await fabric.submit("burst", burst)
    await handle.wait()
    taken.ours_per_s = burst / (time.perf_counter() - talk.emitted_at)
    info = await backend.describe_stream(handle.id, 0)
    assert info.frame_count == burst, "each was taken once"
    connection = await backend.client.dedicated()
    began = time.perf_counter()
    for start in range(0, burst, PIPELINE):
        await pipelined(connection, min(PIPELINE, burst - start))
    taken.raw_per_s = burst / (time.perf_counter() - began)
    await connection.close()


async def pipelined(connection: Connection, count: int) -> None:
    """So many at once, as quickly as the client can: its connection without anything around it."""
    command = ("XADD", "bench:burst", "MAXLEN", "~", 10_000, "*", "payload", TOKEN)
    for reply in [connection.send(*command) for _ in range(count)]:
        await reply


async def one_repetition(frames: int, burst: int) -> Taken:
    taken, talk = Taken(), Talk()
    async with Fabric.connect("embedded://") as fabric:
        backend = fabric.backend
        assert isinstance(backend, ValkeyBackend)
        async with Engine(backend), talk.worker.working(backend):
            await on_their_way(fabric, backend, talk, frames, taken)
            await in_a_second(fabric, backend, talk, burst // 4, Taken())  # to warm up
            await in_a_second(fabric, backend, talk, burst, taken)
    return taken


def report(options: argparse.Namespace, all_taken: list[Taken]) -> None:
    times = {
        "emit to handle.stream()": [
            (percentile(each.ours_us, 0.50), percentile(each.ours_us, 0.99)) for each in all_taken
        ],
        "XADD to blocking XREAD": [
            (percentile(each.raw_us, 0.50), percentile(each.raw_us, 0.99)) for each in all_taken
        ],
    }
    rates = {
        "ctx.emit": [each.ours_per_s for each in all_taken],
        "pipelined XADD": [each.raw_per_s for each in all_taken],
    }
    medians = [[p50 for p50, _ in found] for found in times.values()]
    goals = [
        Goal("p50 to that of XADD and XREAD", ratio(*medians), SLOWER, at_least=False),
        Goal("frames/s to those of XADD", ratio(*rates.values()), SHARE),
    ]
    if options.json:
        told = [asdict(goal) | {"met": goal.met} for goal in goals]
        print(json.dumps({"machine": machine(), "us": times, "per_second": rates, "goals": told}, indent=2))
        return
    spread = f"median (low-high) of {len(all_taken)}"
    rows = [[what, *(str(Spread.of(column)) for column in zip(*found, strict=True))] for what, found in times.items()]
    Table(f"{options.frames} frames, one after the other; us, {spread}", ("", "p50", "p99"), rows).show()
    rows = [[what, str(Spread.of(rate / 1_000 for rate in found))] for what, found in rates.items()]
    Table(f"bursts of {options.burst}; 1000 frames/s, {spread}", ("", "frames"), rows).show()
    Table("goals, median (low-high)", ("", "figure", "goal", ""), [goal.row() for goal in goals]).show()
    print(", ".join(f"{name} {value}" for name, value in machine().items()))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--frames", type=int, default=1_000, help="one after the other, in each repetition")
    parser.add_argument("--burst", type=int, default=20_000, help="frames as fast as they go, in each repetition")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    report(options, [await one_repetition(options.frames, options.burst) for _ in range(options.repetitions)])


if __name__ == "__main__":
    asyncio.run(main())
