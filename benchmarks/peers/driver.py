"""Starts the programs of the systems against one server and asks both what it took."""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.figures import Run
from benchmarks.peers.protocol import Job
from benchmarks.peers.systems import System
from benchmarks.server import Server, running

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 90.0  # for anything a program does
LINE_LIMIT = 1 << 24
NOT_INSTALLED = "not installed"


class ProgramFailed(Exception):
    """A program ended, or was ended, before it had said what was expected."""


@dataclass
class Bench:
    """One server that all systems use, over TCP."""

    server: Server
    url: str
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)  # versions and settings as the programs told them

    async def server_cpu_us(self) -> float:
        facts = await self.server.info("cpu")
        return (facts["used_cpu_user_main_thread"] + facts["used_cpu_sys_main_thread"]) * 1e6

    async def run(self, system: System, role: str, tasks: int) -> Run:
        """One program from the order to begin to its report."""
        async with self.program(system, Job(role, self.url, tasks)) as program:
            cpu = await self.server_cpu_us()
            program.go()
            done = await program.hear("done")
            return Run.told(done, await self.server_cpu_us() - cpu)

    async def run_paced(self, system: System, tasks: int, rate: float) -> Run:
        """A worker that waits for work, and single submits at a steady rate."""
        async with self.program(system, Job("work", self.url, tasks)) as worker:
            worker.go()
            async with self.program(system, Job("paced", self.url, tasks, rate=rate)) as submitter:
                cpu = await self.server_cpu_us()
                submitter.go()
                done = await worker.hear("done")
                return Run.told(done, await self.server_cpu_us() - cpu)

    @asynccontextmanager
    async def program(self, system: System, job: Job) -> AsyncIterator[Program]:
        """A program that has said it is ready; it has ended when the block is left."""
        with tempfile.TemporaryFile() as errors:
            program = await Program.start(system, job, errors)
            try:
                told = await program.hear("ready")
                known = self.facts.setdefault(system.name, {"versions": told["versions"], "settings": {}})
                known["settings"][job.role] = told["settings"]
                yield program
                await program.ended()
            finally:
                await program.kill()


@dataclass
class Program:
    """A running program and the conversation with it."""

    name: str
    process: asyncio.subprocess.Process
    errors: Any

    @classmethod
    async def start(cls, system: System, job: Job, errors: Any) -> Program:
        command = system.command()
        if command is None:
            raise ProgramFailed(NOT_INSTALLED)
        pipe = asyncio.subprocess.PIPE
        words = [*command, json.dumps(asdict(job))]
        try:
            process = await asyncio.create_subprocess_exec(
                *words, stdin=pipe, stdout=pipe, stderr=errors, cwd=ROOT, limit=LINE_LIMIT
            )
        except FileNotFoundError as missing:
            raise ProgramFailed(f"{missing.filename} is missing") from missing
        return cls(f"{system.name} {job.role}", process, errors)

    def go(self) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"go\n")

    async def hear(self, event: str) -> dict[str, Any]:
        assert self.process.stdout
        try:
            async with asyncio.timeout(LIMIT_S):
                line = await self.process.stdout.readline()
        except TimeoutError as late:
            raise ProgramFailed(f"{self.name}: not {event} within {LIMIT_S:.0f} s") from late
        if not line:
            raise ProgramFailed(f"{self.name}: ended before it was {event}: {self.last_words()}")
        told: dict[str, Any] = json.loads(line)
        if told["event"] != event:
            raise ProgramFailed(f"{self.name}: said {told['event']!r} instead of {event!r}: {told}")
        return told

    def last_words(self) -> str:
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "without a word"

    async def ended(self) -> None:
        """Wait until it ends by itself, as it does after its report."""
        try:
            async with asyncio.timeout(LIMIT_S):
                code = await self.process.wait()
        except TimeoutError as late:
            raise ProgramFailed(f"{self.name}: did not end within {LIMIT_S:.0f} s") from late
        if code:
            raise ProgramFailed(f"{self.name}: ended with {code}: {self.last_words()}")

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


@asynccontextmanager
async def bench(aof: str) -> AsyncIterator[Bench]:
    async with running(aof) as server:
        port = free_port()
        await server.connection.send("CONFIG", "SET", "bind", "127.0.0.1", "port", port)
        yield Bench(server, f"redis://127.0.0.1:{port}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
