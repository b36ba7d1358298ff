"""What does a flow cost beside stand-alone tasks? Chains, a fan-out with its join, and graphs of ten thousand members.

    python -m benchmarks.flows [--json] [--chains 200] [--wide 1000] [--members 10000] [--repetitions 5]

One worker process runs chains of ten no-op members, then as many stand-alone no-op tasks, in turns; the same for a
fan-out from one member to many and back to one. A repetition sums up four short turns of each. Everything is submitted
before the worker comes, and flows live where the stand-alone tasks of their lane do. Measured from the start of the
first handler until the store has taken the last end: the time, and the processor time of worker and server together,
which is what a step costs. Large graphs are submitted in parts, each three times; the server itself says how long its
longest call took.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import cast

from benchmarks.figures import Spread, in_turn, ratio
from benchmarks.peers.report import Goal, Table, machine
from benchmarks.worker import LANE, Stopwatch, server_cpu, submit
from flowfabric import Engine, Worker
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core.ids import EdgeId, ExecutionId, FlowId, Namespace

CHAIN = 10
MOST_TIMES, MOST_MS = 1.5, 50
_AT_ONCE = 20
_SIZES = (1_000, 10_000)
_TURNS, _LARGE_TURNS = 4, 3

Flows = Callable[[str], list[c.SubmitFlowArgs]]


@dataclass(frozen=True)
class Turn:
    """What so many executions took, from the first handler to the last end."""

    executions: int
    seconds: float
    cpu_s: float

    def __add__(self, other: Turn) -> Turn:
        return Turn(self.executions + other.executions, self.seconds + other.seconds, self.cpu_s + other.cpu_s)

    @property
    def per_second(self) -> float:
        return self.executions / self.seconds


# Where its turns go, what makes one, and of what size.
Side = tuple[list[Turn], Callable[[int], Awaitable[Turn]], int]


@dataclass(frozen=True)
class Large:
    """The submit of one large graph."""

    members: int
    seconds: float
    longest_ms: float

    @property
    def us_per_member(self) -> float:
        return self.seconds / self.members * 1e6


def graph(backend: ValkeyBackend, kind: str, count: int, links: Sequence[tuple[int, int]]) -> c.SubmitFlowArgs:
    """Members by number, linked by their numbers."""
    flow_id = FlowId.for_lane(LANE, backend.partitions)
    ids = [ExecutionId.for_flow(flow_id, backend.partitions) for _ in range(count)]
    members = tuple(
        c.CreateExecutionArgs(
            execution_id=execution_id,
            namespace=Namespace("bench"),
            lane_id=LANE,
            execution_kind=kind,
            payload_encoding="json",
        )
        for execution_id in ids
    )
    edges = tuple(
        c.FlowEdge(edge_id=EdgeId.new(), upstream_execution_id=ids[up], downstream_execution_id=ids[down])
        for up, down in links
    )
    return c.SubmitFlowArgs(flow_id=flow_id, namespace=Namespace("bench"), members=members, edges=edges)


def chain(backend: ValkeyBackend, kind: str, length: int) -> c.SubmitFlowArgs:
    return graph(backend, kind, length, [(at, at + 1) for at in range(length - 1)])


def fan(backend: ValkeyBackend, kind: str, width: int) -> c.SubmitFlowArgs:
    """From one to many to one."""
    out = [(0, at) for at in range(1, width + 1)]
    return graph(backend, kind, width + 2, out + [(at, width + 1) for _, at in out])


class Bench:
    """One server, and workers that come and go."""

    def __init__(self, url: str, backend: ValkeyBackend) -> None:
        self._url = url
        self._backend = backend

    async def chains(self, count: int) -> Turn:
        return await self._run(count * CHAIN, lambda kind: [chain(self._backend, kind, CHAIN) for _ in range(count)])

    async def fan(self, width: int) -> Turn:
        return await self._run(width + 2, lambda kind: [fan(self._backend, kind, width)])

    async def tasks(self, count: int) -> Turn:
        return await self._run(count, None)

    async def _run(self, executions: int, flows: Flows | None) -> Turn:
        watch, worker = Stopwatch(), Worker(concurrency=200)

        @worker.task(lane=LANE)
        async def noop() -> None:
            watch.begin()

        await self._backend.client.execute("FLUSHALL")
        if flows is None:
            await submit(self._backend, noop.name, noop.encode_arguments(), executions)
        else:
            await self._submit(flows(noop.name))
        server = await server_cpu(self._backend)
        async with Engine(self._backend), worker.working(self._url):
            while worker.stats.completed < executions:
                await worker.idle()
                await asyncio.sleep(0)
            seconds, cpu = time.perf_counter() - watch.seconds, time.process_time() - watch.cpu
            return Turn(executions, seconds, cpu + await server_cpu(self._backend) - server)

    async def _submit(self, flows: list[c.SubmitFlowArgs]) -> None:
        for start in range(0, len(flows), _AT_ONCE):
            await asyncio.gather(*(self._backend.submit_flow(args) for args in flows[start : start + _AT_ONCE]))

    async def large(self, members: int) -> Large:
        """A graph in layers of a hundred, each member with two upstreams."""
        links = [(at - back, at) for at in range(100, members) for back in (100, 99)]
        args = graph(self._backend, "noop", members, [(up, down) for up, down in links if up < down])
        client = self._backend.client
        await client.execute("FLUSHALL")
        await client.execute("CONFIG", "SET", "slowlog-log-slower-than", 1_000, "slowlog-max-len", 10_000)
        await client.execute("SLOWLOG", "RESET")
        began = time.perf_counter()
        await self._backend.submit_flow(args)
        seconds = time.perf_counter() - began
        entries = await client.execute("SLOWLOG", "GET", 10_000)
        assert isinstance(entries, list)
        longest_us = max(cast("list[int]", entry)[2] for entry in entries)
        return Large(members, seconds, longest_us / 1000)


@dataclass
class Figures:
    chains: list[Turn]
    chain_tasks: list[Turn]
    fans: list[Turn]
    fan_tasks: list[Turn]
    large: list[Large]


async def measure(options: argparse.Namespace) -> Figures:
    figures = Figures([], [], [], [], [])
    with tempfile.TemporaryDirectory(prefix="ff-bench-") as folder:
        url = f"embedded://{folder}"
        backend = await ValkeyBackend.open(Settings(url=url))
        bench = Bench(url, backend)
        tasks = bench.tasks
        pairs: list[tuple[Side, Side]] = [
            ((figures.chains, bench.chains, options.chains), (figures.chain_tasks, tasks, options.chains * CHAIN)),
            ((figures.fans, bench.fan, options.wide), (figures.fan_tasks, tasks, options.wide + 2)),
        ]
        await bench.tasks(500)  # connections, caches
        for _ in range(options.repetitions):
            for pair in pairs:
                sums = [Turn(0, 0.0, 0.0)] * 2
                for turn in range(_TURNS):
                    for which in in_turn((0, 1), turn):
                        _, run, size = pair[which]
                        sums[which] += await run(size)
                for (turns, _, _), total in zip(pair, sums, strict=True):
                    turns.append(total)
        for _ in range(_LARGE_TURNS):
            figures.large += [await bench.large(size) for size in sorted({*_SIZES, options.members})]
        await backend.close()
    return figures


def goals(figures: Figures) -> list[Goal]:
    largest = max(each.members for each in figures.large)
    least = min(each.members for each in figures.large)
    growth = ratio(
        [each.us_per_member for each in figures.large if each.members == largest],
        [each.us_per_member for each in figures.large if each.members == least],
    )
    step = ratio([turn.cpu_s for turn in figures.chains], [turn.cpu_s for turn in figures.chain_tasks])
    longest = Spread.of(each.longest_ms for each in figures.large)
    return [
        Goal("processor time of a chain's step to that of a task", step, MOST_TIMES, at_least=False),
        Goal("longest call of a submit, ms", longest, MOST_MS, at_least=False),
        Goal(f"time per member, {largest:,} members to {least:,}", growth, MOST_TIMES, at_least=False),
    ]


def report(options: argparse.Namespace, figures: Figures) -> None:
    if options.json:
        told = [asdict(goal) | {"met": goal.met} for goal in goals(figures)]
        print(json.dumps({"machine": machine(), "figures": asdict(figures), "goals": told}, indent=2))
        return
    rows = []
    for name, turns in (
        (f"chains of {CHAIN}", figures.chains),
        ("as many tasks", figures.chain_tasks),
        (f"1 to {options.wide} to 1", figures.fans),
        ("as many tasks", figures.fan_tasks),
    ):
        cpu = Spread.of(turn.cpu_s / turn.executions * 1e6 for turn in turns)
        rows.append([name, str(Spread.of(turn.per_second for turn in turns)), str(cpu),
                     str(Spread.of(turn.seconds for turn in turns))])  # fmt: skip
    Table("one worker process, median (low-high)", ("", "executions/s", "cpu us each", "seconds"), rows).show()
    rows = [
        [f"{each.members:,} members", f"{each.seconds:.2f}", f"{each.us_per_member:.0f}", f"{each.longest_ms:.1f}"]
        for each in figures.large
    ]
    Table("submits of large graphs", ("", "seconds", "us a member", "longest call, ms"), rows).show()
    Table("goals, median (low-high)", ("", "figure", "goal", ""), [goal.row() for goal in goals(figures)]).show()
    chains = Spread.of(turn.per_second / CHAIN for turn in figures.chains)
    print(f"chains/s {chains}; " + ", ".join(f"{name} {value}" for name, value in machine().items()))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--chains", type=int, default=200)
    parser.add_argument("--wide", type=int, default=1_000, help="members of a fan-out between its first and its last")
    parser.add_argument("--members", type=int, default=10_000, help="of the largest graph")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    report(options, await measure(options))


if __name__ == "__main__":
    asyncio.run(main())
