"""Those who mean a server no good: a process that is attacked, and connections that send anything, or nothing."""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

WITHIN_S = 20


@dataclass
class Stranger:
    """One connection, byte by byte."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> bool:
        """Whether the server still takes it."""
        try:
            self.writer.write(data)
            await self.writer.drain()
        except ConnectionError:
            return False
        return not self.writer.is_closing()

    async def rest(self) -> bytes:
        """All that the server says until it hangs up."""
        found = b""
        async with asyncio.timeout(WITHIN_S):
            try:
                while data := await self.reader.read(65_536):
                    found += data
            except ConnectionError:
                pass
        return found

    async def answer(self) -> int:
        """The status of the next answer; 0 when the server hung up without one."""
        async with asyncio.timeout(WITHIN_S):
            try:
                line = await self.reader.readline()
            except ConnectionError:
                return 0
        return int(line.split()[1]) if line else 0


@asynccontextmanager
async def stranger(url: str) -> AsyncIterator[Stranger]:
    found = await connect(url)
    try:
        yield found
    finally:
        found.writer.close()


async def connect(url: str) -> Stranger:
    place = urlsplit(url)
    assert place.port is not None
    return Stranger(*await asyncio.open_connection(place.hostname, place.port))


async def status(url: str, request: bytes) -> int:
    """What a request of these bytes is answered."""
    async with stranger(url) as one:
        await one.send(request)
        return await one.answer()


HEALTHY = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@dataclass
class Attacked:
    """A process that serves."""

    pid: int
    url: str

    @property
    def rss_mb(self) -> float:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


@asynccontextmanager
async def attacked(store: str, *options: str, files: int | None = None) -> AsyncIterator[Attacked]:
    """`flowfabric server`, with at most so many open files."""

    def limit() -> None:
        if files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    command = [sys.executable, "-m", "flowfabric.cli", "server", "--port", "0", "--url", store, "--no-engine", *options]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, preexec_fn=limit)
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        yield Attacked(process.pid, next(word for word in line.split() if word.startswith("http://")))
    finally:
        process.terminate()
        await process.wait()
