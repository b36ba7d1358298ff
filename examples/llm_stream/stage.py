"""What every story needs: a store, an engine, authors in processes that can be killed, and the text people see."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from rich.console import Console

from flowfabric import Engine, Fabric, StreamItem

console = Console(highlight=False, soft_wrap=True)


@dataclass
class Text:
    """What one person sees: tokens as they come, and nothing of an attempt that counts no more."""

    shown: str = ""
    tokens: int = 0
    cursor: str | None = None

    def add(self, item: StreamItem) -> None:
        if item.is_reset:
            self.shown, self.tokens = "", 0
        else:
            self.shown, self.tokens = self.shown + item.text, self.tokens + 1
        self.cursor = item.cursor


@dataclass
class Stage:
    fabric: Fabric
    url: str
    authors: list[Process] = field(default_factory=list)

    async def enter_author(self) -> Process:
        command = (sys.executable, "-m", "examples.llm_stream.author", self.url)
        process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL)
        self.authors.append(process)
        return process

    async def leave(self, author: Process) -> None:
        if author.returncode is None:
            author.terminate()
        await author.wait()

    async def clear(self) -> None:
        await asyncio.gather(*map(self.leave, self.authors))


@asynccontextmanager
async def opened() -> AsyncIterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="flowfabric-llm-stream-") as directory:
        url = f"embedded://{directory}"
        async with Fabric.connect(url) as fabric, Engine(fabric.backend):
            stage = Stage(fabric, url)
            try:
                yield stage
            finally:
                await stage.clear()
