"""What one server process carries: submits, claims with completes, a thousand readers of one stream, and strangers.

    python -m benchmarks.http [--json] [--calls 4000] [--repetitions 5] [--readers 1000] [--frames 50] [--streams 1000]

Submits and lives go through `flowfabric server` in one process, beside a bare endpoint of the same framework, which
reads a JSON body and answers a few bytes, in turns of the same run. The callers of both are the same: connections, each
of which sends its next request when it has the answer to the last. A life is a share in a claim, and a complete. Then
clients read one execution as server-sent events while it emits: how long a frame takes to each of them, from the call
that appends it, and the processor time of the server meanwhile. Last, the submits of one token beside streams of
another, each with a filter of its own, and without them.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from benchmarks.figures import Spread, in_turn, percentile, ratio
from benchmarks.http_calls import Caller, Process, process_of
from benchmarks.http_crowd import Crowd, crowd
from benchmarks.peers.report import Goal, Table, machine
from flowfabric.worker.loop import event_loop

GOAL = 0.35
CONNECTIONS = 64
PER_CLAIM = 16
SUBMIT = b'{"task":"greet","args":["tides"],"lane":"work"}'
CLAIM = {"worker_id": "bench", "worker_instance_id": "bench-1", "lanes": ["work"], "count": PER_CLAIM, "wait_ms": 0}
ENDING = {"result_payload": base64.b64encode(b'"ok"').decode(), "result_encoding": "json"}
FRAME_PAUSE_S = 0.02

Turn = Callable[[list[Caller], int], Awaitable[None]]


@dataclass
class Rates:
    """Calls a second, of one repetition."""

    bare: float = 0.0
    submits: float = 0.0
    lives: float = 0.0


@dataclass
class Reading:
    """How long each frame took to each reader, and what the server used while they came."""

    took_ms: list[float] = field(default_factory=list)
    cpu_share: float = 0.0


async def _shared(callers: list[Caller], calls: int, path: str, body: bytes) -> None:
    async def some(caller: Caller) -> None:
        for _ in range(calls // len(callers)):
            await caller.post(path, body)

    await asyncio.gather(*map(some, callers))


async def bare(callers: list[Caller], calls: int) -> None:
    await _shared(callers, calls, "/", SUBMIT)


async def submits(callers: list[Caller], calls: int) -> None:
    await _shared(callers, calls, "/v1/executions", SUBMIT)


async def lives(callers: list[Caller], calls: int) -> None:
    """All that were submitted are claimed and completed, by callers that take a handful each."""

    async def some(caller: Caller) -> int:
        done = 0
        while claimed := await caller.ask("/v1/work/claim", CLAIM):
            for work in claimed:
                path = f"/v1/executions/{work['execution_id']}/complete".replace("{", "%7B").replace("}", "%7D")
                await caller.ask(path, ENDING | {"fence": work["fence"]})
            done += len(claimed)
        return done

    assert sum(await asyncio.gather(*map(some, callers))) == calls


async def rate(turn: Turn, callers: list[Caller], calls: int) -> float:
    began = time.perf_counter()
    await turn(callers, calls)
    return calls / (time.perf_counter() - began)


async def one_repetition(ours: list[Caller], theirs: list[Caller], calls: int, number: int) -> Rates:
    found = Rates()

    async def measure_bare() -> None:
        found.bare = await rate(bare, theirs, calls)

    async def measure_ours() -> None:
        found.submits = await rate(submits, ours, calls)
        found.lives = await rate(lives, ours, calls)

    for measure in in_turn([measure_bare, measure_ours], number):
        await measure()
    return found


async def read_by_many(server: Process, readers: int, frames: int) -> Reading:
    (emitter,) = await server.callers(1)
    found = Reading()
    submitted = await emitter.ask("/v1/executions", {"task": "emit", "lane": "stream"})
    (work,) = await emitter.ask("/v1/work/claim", CLAIM | {"lanes": ["stream"], "count": 1})
    path = f"/v1/executions/{submitted['execution_id']}".replace("{", "%7B").replace("}", "%7D")
    owned = {"fence": work["fence"], "attempt_index": work["attempt_index"]}
    got = asyncio.Semaphore(0)
    callers = await server.callers(readers)
    reading = [asyncio.create_task(_read(each, path, found, got)) for each in callers]
    await _emit(emitter, path, owned)
    await _all(got, readers)  # everybody is there; now it counts
    found.took_ms.clear()
    before, began = server.cpu_s, time.perf_counter()
    for _ in range(frames):
        await _emit(emitter, path, owned)
        await _all(got, readers)
        await asyncio.sleep(FRAME_PAUSE_S)
    found.cpu_share = (server.cpu_s - before) / (time.perf_counter() - began)
    await emitter.ask(f"{path}/complete", ENDING | {"fence": work["fence"]})
    await asyncio.gather(*reading)
    for each in (emitter, *callers):
        each.close()
    return found


async def _emit(emitter: Caller, path: str, owned: dict[str, Any]) -> None:
    payload = base64.b64encode(str(time.perf_counter()).encode()).decode()
    await emitter.ask(f"{path}/frames", owned | {"frame_type": "text", "payload": payload, "encoding": "utf8"})


async def _all(got: asyncio.Semaphore, readers: int) -> None:
    async with asyncio.timeout(60):
        for _ in range(readers):
            await got.acquire()


async def _read(caller: Caller, path: str, found: Reading, got: asyncio.Semaphore) -> None:
    async for data in caller.frames(f"{path}/stream"):
        found.took_ms.append((time.perf_counter() - _sent_at(data)) * 1000)
        got.release()


@lru_cache(maxsize=8)
def _sent_at(data: str) -> float:
    """When the frame was sent, which is what it says; all readers get the same text."""
    return float(json.loads(data)["value"])


async def measure(options: argparse.Namespace) -> tuple[list[Rates], Reading, Crowd]:
    with tempfile.TemporaryDirectory(prefix="ff-bench-") as folder:
        serving = process_of("flowfabric.cli", "server", "--port", "0", "--url", f"embedded://{folder}/store")
        async with serving as server, process_of("benchmarks.http_bare") as other:
            ours, theirs = await server.callers(CONNECTIONS), await other.callers(CONNECTIONS)
            await one_repetition(ours, theirs, options.calls // 4 // CONNECTIONS * CONNECTIONS, 0)  # warms up
            calls = options.calls // CONNECTIONS * CONNECTIONS
            rates = [await one_repetition(ours, theirs, calls, number) for number in range(options.repetitions)]
            for each in (*ours, *theirs):
                each.close()
            reading = await read_by_many(server, options.readers, options.frames)
        return rates, reading, await crowd(folder, options.streams, options.calls // 4, options.repetitions)


def report(options: argparse.Namespace, rates: list[Rates], reading: Reading, crowded: Crowd) -> None:
    share = ratio([each.submits for each in rates], [each.bare for each in rates])
    goals = [Goal("submits to calls of a bare endpoint", share, GOAL, at_least=True), crowded.goal]
    took = {"p50": percentile(reading.took_ms, 0.50), "p99": percentile(reading.took_ms, 0.99)}
    if options.json:
        told: dict[str, Any] = {"machine": machine(), "per_second": [asdict(each) for each in rates], "frame_ms": took}
        told |= {"server_cpu": reading.cpu_share, "goals": [asdict(each) | {"met": each.met} for each in goals]}
        told |= {"submit_p50_ms": crowded.p50s}
        print(json.dumps(told, indent=2))
        return
    rows = [
        ["a bare endpoint", str(Spread.of(each.bare for each in rates))],
        ["submits", str(Spread.of(each.submits for each in rates))],
        ["claims with completes", str(Spread.of(each.lives for each in rates))],
    ]
    title = f"{options.calls} calls on {CONNECTIONS} connections; a second, median (low-high) of {len(rates)}"
    Table(title, ("", "a second"), rows).show()
    Table("goals, median (low-high)", ("", "figure", "goal", ""), [each.row() for each in goals]).show()
    row = [f"{took['p50']:.1f}", f"{took['p99']:.1f}", f"{reading.cpu_share:.0%}"]
    Table(f"{options.readers} readers of one execution", ("frame, p50 ms", "p99 ms", "server CPU"), [row]).show()
    title = f"submits of one token, {options.streams} streams of another"
    Table(title, ("without them, p50 ms", "p99 ms", "beside them, p50 ms", "p99 ms"), [crowded.row]).show()
    print(", ".join(f"{name} {value}" for name, value in machine().items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--calls", type=int, default=4_000, help="of each kind, in each repetition")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--readers", type=int, default=1_000, help="of the stream")
    parser.add_argument("--frames", type=int, default=50, help="that each of them gets")
    parser.add_argument("--streams", type=int, default=1_000, help="of one token, while another one submits")
    options = parser.parse_args()
    report(options, *event_loop.run(measure(options)))


if __name__ == "__main__":
    main()
