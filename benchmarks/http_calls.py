"""Callers that cost little themselves, and the processes that they call."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")
LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)


class Caller:
    """One connection that is kept, and one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self._reader = reader
        self._writer = writer
        self._common = "Host: 127.0.0.1\r\n" + (f"Authorization: Bearer {token}\r\n" if token else "")

    @classmethod
    async def connect(cls, port: int, token: str = "") -> Caller:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 22), token)

    async def post(self, path: str, body: bytes) -> bytes:
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}"
        self._writer.write(f"POST {path} HTTP/1.1\r\n{self._common}{kind}\r\n\r\n".encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = LENGTH.search(answer)
        assert length is not None, answer
        content = await self._reader.readexactly(int(length[1]))
        assert answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")), content
        return content

    async def ask(self, path: str, body: Any) -> Any:
        return json.loads(await self.post(path, json.dumps(body).encode()))

    async def frames(self, path: str) -> AsyncIterator[str]:
        """The data of every frame that a stream of events sends."""
        self._writer.write(f"GET {path} HTTP/1.1\r\n{self._common}\r\n".encode())
        kind = ""
        while True:
            line = (await self._reader.readline()).decode().rstrip()
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                if kind == "end":
                    return
                yield line.removeprefix("data: ")

    def close(self) -> None:
        self._writer.close()


@dataclass(frozen=True)
class Process:
    """A server, by where it listens and what it has used."""

    pid: int
    port: int

    @property
    def cpu_s(self) -> float:
        user, system = Path(f"/proc/{self.pid}/stat").read_text().rsplit(") ", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    async def callers(self, count: int) -> list[Caller]:
        return [await Caller.connect(self.port) for _ in range(count)]


@asynccontextmanager
async def process_of(*arguments: str) -> AsyncIterator[Process]:
    """`python -m ...`, from the line in which it tells its address to the end of the block."""
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *arguments, stdout=asyncio.subprocess.PIPE, limit=1 << 16
    )
    assert started.stdout is not None
    try:
        found = ADDRESS.search((await asyncio.wait_for(started.stdout.readline(), 60)).decode())
        assert found is not None, "it did not say where it listens"
        yield Process(started.pid, int(found[1]))
    finally:
        started.terminate()
        await started.wait()
