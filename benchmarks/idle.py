"""What does it cost to do nothing? 256 partitions, no work, an engine and a worker beside an embedded server.

    python -m benchmarks.idle [--seconds 60] [--used 0] [--json]

Processor time of the server's main thread and of this process, as a share of one core, and commands a second, those
inside of functions included: first of the server alone for a fifth of the time, then with the engine, then with the
engine and a worker. `--used 256` puts a finished execution into each partition before, so that the engine has to look
at all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId, Namespace
from flowfabric.engine import Engine
from flowfabric.worker import Worker

BOUND_PCT = 2.0
SETTLING_S = 5.0  # past the first looks, which are quick


@dataclass
class Reading:
    """Counters at one moment."""

    at_s: float
    server_s: float
    process_s: float
    commands: int


@dataclass
class Cost:
    """What a stretch of time took, as shares of one core."""

    what: str
    seconds: float
    server_pct: float
    process_pct: float
    commands_per_s: float

    @property
    def total_pct(self) -> float:
        return self.server_pct + self.process_pct


async def read(backend: ValkeyBackend) -> Reading:
    text = await backend.client.execute("INFO", "cpu", "stats")
    assert isinstance(text, bytes)
    facts = dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)
    server = float(facts["used_cpu_user_main_thread"]) + float(facts["used_cpu_sys_main_thread"])
    commands = int(facts["total_commands_processed"])
    return Reading(time.perf_counter(), server, time.process_time(), commands)


async def cost(what: str, backend: ValkeyBackend, seconds: float) -> Cost:
    before = await read(backend)
    await asyncio.sleep(seconds)
    after = await read(backend)
    elapsed = after.at_s - before.at_s
    return Cost(
        what=what,
        seconds=elapsed,
        server_pct=100 * (after.server_s - before.server_s) / elapsed,
        process_pct=100 * (after.process_s - before.process_s) / elapsed,
        commands_per_s=(after.commands - before.commands - 1) / elapsed,  # but for the reading itself
    )


async def use_partitions(backend: ValkeyBackend, count: int) -> None:
    """A finished execution in each of so many partitions."""
    for index in range(count):
        execution_id = ExecutionId(f"{{fp:{index}}}:{ExecutionId.for_lane(LaneId('x'), backend.partitions).uuid}")
        created = c.CreateExecutionArgs(
            execution_id=execution_id, namespace=Namespace("idle"), lane_id=LaneId("idle"), execution_kind="none"
        )
        await backend.create_execution(created)
        ended = c.CancelExecutionArgs(
            execution_id=execution_id, reason="benchmark", source=c.CancelSource.OPERATOR_OVERRIDE
        )
        await backend.cancel_execution(ended)


def worker() -> Worker:
    idle = Worker(lanes=["idle"])

    @idle.task
    async def nothing() -> None: ...

    return idle


async def measure(seconds: float, used: int) -> list[Cost]:
    with tempfile.TemporaryDirectory(prefix="ff-idle-") as folder:
        settings = Settings(url=f"embedded://{folder}")
        backend = await ValkeyBackend.open(settings)
        try:
            await use_partitions(backend, used)
            costs = [await cost("server alone", backend, seconds / 5)]
            async with Engine(backend) as engine:
                await asyncio.sleep(SETTLING_S)
                costs.append(await cost("engine", backend, seconds))
                async with worker().working(backend, keeper=settings):
                    await asyncio.sleep(SETTLING_S)
                    costs.append(await cost("engine, worker", backend, seconds))
                assert engine.status().partitions_in_use == used
            return costs
        finally:
            await backend.close()


def show(costs: list[Cost]) -> None:
    print(f"{'':<16}{'seconds':>9}{'server %':>10}{'process %':>11}{'together %':>12}{'commands/s':>12}")
    for each in costs:
        shares = f"{each.server_pct:>10.2f}{each.process_pct:>11.2f}{each.total_pct:>12.2f}"
        print(f"{each.what:<16}{each.seconds:>9.1f}{shares}{each.commands_per_s:>12.1f}")
    print(f"\nshares of one core; the bound is {BOUND_PCT} % together")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--used", type=int, default=0, help="partitions with a finished execution")
    options = parser.parse_args()
    costs = await measure(options.seconds, options.used)
    if options.json:
        print(json.dumps([asdict(each) | {"total_pct": each.total_pct} for each in costs], indent=2))
    else:
        show(costs)
    sys.exit(0 if costs[-1].total_pct < BOUND_PCT else 1)


if __name__ == "__main__":
    asyncio.run(main())
