"""A batch of tasks, a fleet of workers, and a kill -9 in the middle: `python examples/fleet.py`.

One worker process is killed while it works. Its leases run out, the engine frees what it had, the others finish it.
At the end the event log is asked: every execution must have been completed exactly once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from rich.box import HEAVY_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from flowfabric import Engine, Fabric, FlowFabricError, Handle, Worker, task
from flowfabric.core.contracts.events import ENDINGS, Event
from flowfabric.core.ids import ExecutionId

LANE = "frames"
SECONDS = 5  # that the batch is meant to take
LEASE_TTL_MS = 2_000  # how long after its death a worker's executions are taken over
KILL_AFTER = 0.35  # of the batch
LOOK_EVERY_S = 0.1
AT_MOST_S = 25
SHOWN = 8
BARS = {"waiting": "yellow", "active": "cyan", "completed": "green", "failed": "red"}

console = Console(highlight=False)
BOX = HEAVY_HEAD if console.is_terminal else None  # plain where nobody looks at it


@task(lane=LANE)
async def render(frame: int) -> str:
    await asyncio.sleep(0.1 + frame % 7 * 0.04)
    return f"frame {frame}"


async def work(url: str, name: str, slots: str) -> None:
    """What runs in each process of the fleet."""
    worker = Worker([LANE], concurrency=int(slots), lease_ttl_ms=LEASE_TTL_MS, grace=1, worker_instance_id=name)
    worker.add(render)
    leaving = asyncio.create_task(leave_with(os.getppid()))
    await worker.run(url)
    leaving.cancel()


async def leave_with(parent: int) -> None:
    """Nobody is left behind when the demo itself is killed."""
    while os.getppid() == parent:  # noqa: ASYNC110 - no event tells it
        await asyncio.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


@dataclass
class Fleet:
    """The processes, the batch, and what was seen of them."""

    fabric: Fabric
    processes: dict[str, asyncio.subprocess.Process]
    handles: list[Handle[str]] = field(default_factory=list)
    states: Counter[str] = field(default_factory=Counter)
    holders: dict[ExecutionId, str] = field(default_factory=dict)  # of what is active
    victim: str | None = None
    killed_at: float = 0.0
    bereft: bool = False  # the victim has no lease any more

    async def look(self) -> None:
        """Ask the store how the batch stands, and who has what."""
        (lane,) = await self.fabric.counts(LANE)
        self.states = Counter({str(state): count for state, count in lane.counts.items()})
        page = await self.fabric.list(lane=LANE, state="active", limit=1_000)
        described = await asyncio.gather(
            *(self.fabric.handle(each.execution_id).describe() for each in page.executions)
        )
        self.holders = {
            each.execution_id: each.current_lease.worker_instance_id for each in described if each.current_lease
        }

    def kill_one(self) -> None:
        """kill -9 for whoever has most to lose."""
        victim, _ = Counter(self.holders.values()).most_common(1)[0]
        self.processes[victim].kill()
        self.victim, self.killed_at = victim, time.monotonic()

    @property
    def completed(self) -> int:
        return self.states["completed"]

    @property
    def orphans(self) -> int:
        """How many the victim still has a lease on."""
        return sum(holder == self.victim for holder in self.holders.values())


@asynccontextmanager
async def started(workers: int, slots: int) -> AsyncIterator[Fleet]:
    """A store, an engine and the worker processes; none of them is left behind."""
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="flowfabric-fleet-"))
        url = f"embedded://{directory}"
        fabric = await stack.enter_async_context(Fabric.connect(url))
        await stack.enter_async_context(Engine(fabric.backend))
        fleet = Fleet(fabric, {})
        stack.push_async_callback(stop, fleet)
        for name in (f"worker-{number}" for number in range(1, workers + 1)):
            command = (sys.executable, __file__, "--work", url, name, str(slots))
            fleet.processes[name] = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL)
        async with asyncio.timeout(AT_MOST_S / 3):
            while len((await fabric.workers()).workers) < workers:  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(LOOK_EVERY_S)
        yield fleet


async def stop(fleet: Fleet) -> None:
    for process in fleet.processes.values():
        if process.returncode is None:
            process.terminate()
    await asyncio.gather(*(process.wait() for process in fleet.processes.values()))


async def run(tasks: int, workers: int) -> list[str]:
    """The demo; what went wrong."""
    console.print(f"Starting an embedded Valkey, an engine and {workers} worker processes ...")
    slots = max(4, tasks // (workers * SECONDS * 5))  # a task takes about a fifth of a second
    async with started(workers, slots) as fleet:
        outcomes = await fleet.fabric.submit_many(render, [(frame,) for frame in range(tasks)])
        refused = [outcome for outcome in outcomes if isinstance(outcome, FlowFabricError)]
        if refused:
            return [f"{len(refused)} were not accepted, such as: {refused[0]}"]
        fleet.handles = [outcome for outcome in outcomes if not isinstance(outcome, FlowFabricError)]
        try:
            async with asyncio.timeout(AT_MOST_S):
                await watch(fleet, tasks)
        except TimeoutError:
            return [f"only {fleet.completed} of {tasks} were completed in {AT_MOST_S} seconds"]
        return [*await check_log(fleet), *await check_takeovers(fleet)]


async def watch(fleet: Fleet, tasks: int) -> None:
    """Until everything has ended; one worker is killed on the way."""
    ended = asyncio.gather(*(handle.wait() for handle in fleet.handles))
    try:
        with Screen(fleet, tasks) as screen:
            while not ended.done():
                await fleet.look()
                interfere(fleet, screen, tasks)
                screen.show()
                await asyncio.wait([ended], timeout=LOOK_EVERY_S)
            await fleet.look()
            screen.show()
    finally:
        ended.cancel()


def interfere(fleet: Fleet, screen: Screen, tasks: int) -> None:
    """Kill one worker when some of the batch is done, and tell when it has nothing any more."""
    if fleet.victim is None:
        if fleet.completed >= tasks * KILL_AFTER and fleet.holders:
            fleet.kill_one()
            screen.say(f"{fleet.victim} is killed with -9; it had {fleet.orphans} executions")
    elif not fleet.orphans and not fleet.bereft:
        fleet.bereft = True
        screen.say(f"its executions are taken from it {time.monotonic() - fleet.killed_at:.1f} s later")


class Screen:
    """Live on a terminal; lines where the output is piped."""

    def __init__(self, fleet: Fleet, tasks: int) -> None:
        self._fleet, self._tasks = fleet, tasks
        self._live = Live(console=console, refresh_per_second=10) if console.is_terminal else None
        self._news: list[str] = []
        self._told = -1

    def __enter__(self) -> Screen:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def say(self, text: str) -> None:
        if self._live:
            self._news.append(f"[bold]{text}[/]")
        else:
            console.print(text)

    def show(self) -> None:
        if self._live:
            self._live.update(Group(self._bars(), self._workers(), *self._news))
        elif (fifth := self._fleet.completed * 5 // self._tasks) > self._told:
            self._told = fifth
            console.print(", ".join(f"{self._fleet.states[state]} {state}" for state in BARS))

    def _bars(self) -> Table:
        table = Table.grid(padding=(0, 1))
        for state, colour in BARS.items():
            count = self._fleet.states[state]
            bar = ProgressBar(
                total=self._tasks, completed=count, width=60, complete_style=colour, finished_style=colour
            )
            table.add_row(state, bar, str(count))
        return table

    def _workers(self) -> Table:
        table = Table("worker", "process", "is", "has", box=BOX)
        has = Counter(self._fleet.holders.values())
        for name, process in self._fleet.processes.items():
            state = "[red]dead[/]" if name == self._fleet.victim else "[green]alive[/]"
            table.add_row(name, str(process.pid), state, "■ " * has[name])
        return table


async def check_log(fleet: Fleet) -> list[str]:
    """Every execution has been completed exactly once, and has not ended otherwise: the store's own log says so."""
    endings: Counter[tuple[str, str]] = Counter()
    async for event in ending_events(fleet.fabric):
        endings[str(event.execution_id), event.event] += 1
    expected: Counter[tuple[str, str]] = Counter({(handle.id, "completed"): 1 for handle in fleet.handles})
    wrong = [*describe("lost", expected - endings), *describe("doubled or not completed", endings - expected)]
    for frame, handle in enumerate(fleet.handles):
        if (result := await handle.raw_result()) is None or result.payload != f'"frame {frame}"'.encode():
            wrong.append(f"{handle.id} has the result {result}")
    console.print(f"The event log: {endings.total()} ends of {len(fleet.handles)} executions.")
    return wrong


async def ending_events(fabric: Fabric) -> AsyncIterator[Event]:
    cursor: str | None = None
    while True:
        page = await fabric.events(lane=LANE, kinds=list(ENDINGS), cursor=cursor, limit=1_000)
        for event in page.events:
            yield event
        cursor = page.cursor
        if not page.more:
            return


def describe(what: str, found: Counter[tuple[str, str]]) -> Iterable[str]:
    return (f"{what}: {execution_id} ({event})" for execution_id, event in found.elements())


async def check_takeovers(fleet: Fleet) -> list[str]:
    """What the victim had was finished by others, in new attempts."""
    lives = await asyncio.gather(*(handle.attempts() for handle in fleet.handles))
    taken_over = {frame: life for frame, life in enumerate(lives) if len(life) > 1}
    table = Table("task", "began on", "finished by", "attempts", title=f"Taken over from {fleet.victim}", box=BOX)
    for frame, life in list(taken_over.items())[:SHOWN]:
        outcomes = ", ".join(f"{each.attempt_type} {each.state}" for each in life)
        table.add_row(f"frame {frame}", life[0].worker_instance_id, life[-1].worker_instance_id, outcomes)
    console.print(table)
    if len(taken_over) > SHOWN:
        console.print(f"and {len(taken_over) - SHOWN} more")
    by_the_dead = [frame for frame, life in taken_over.items() if life[-1].worker_instance_id == fleet.victim]
    if by_the_dead or not taken_over:
        return [f"from {fleet.victim} {len(taken_over)} were taken over, {len(by_the_dead)} of them by itself"]
    return []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=300, help="how many (300)")
    parser.add_argument("--workers", type=int, default=3, help="how many processes (3)")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        asyncio.run(work(*options.work))
        return
    if options.tasks < 50 or options.workers < 2:
        parser.error("at least 50 tasks and 2 workers are needed to see something")
    began = time.monotonic()
    wrong = asyncio.run(run(options.tasks, options.workers))
    for line in wrong:
        console.print(f"[red]{line}[/]", soft_wrap=True)
    if wrong:
        sys.exit(1)
    console.print(
        f"[green]Nothing was lost, and each was completed exactly once[/] ({time.monotonic() - began:.0f} s)."
    )


if __name__ == "__main__":
    main()
