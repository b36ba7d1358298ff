"""Workers as processes of their own, to be signalled and killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ANSWERS_WITHIN_S = 60


class WorkerProcess:
    """`python -m tests.worker_tasks`, and what it prints."""

    def __init__(self, url: str, *, grace: float = 30, lease_ttl_ms: int = 30_000, concurrency: int = 8) -> None:
        arguments = [url, str(grace), str(lease_ttl_ms), str(concurrency)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.worker_tasks", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._killing = threading.Lock()
        self._is_killed = False

    async def says(self, text: str) -> None:
        """Wait until it prints this line."""
        async with asyncio.timeout(ANSWERS_WITHIN_S):
            while text not in self.lines:
                line = await asyncio.to_thread(self._read)
                assert line, f"it ended with {self.process.poll()}: {self.lines}"
                self.lines.append(line.strip())

    def _read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    async def exit_code(self) -> int:
        return await asyncio.to_thread(self.process.wait, ANSWERS_WITHIN_S)

    def kill(self) -> None:
        """Once is enough, from whatever thread."""
        with self._killing:
            if not self._is_killed:
                self._is_killed = True
                self.process.kill()
                self.process.communicate()


@contextmanager
def worker_process(
    url: str, *, grace: float = 30, lease_ttl_ms: int = 30_000, concurrency: int = 8
) -> Iterator[WorkerProcess]:
    started = WorkerProcess(url, grace=grace, lease_ttl_ms=lease_ttl_ms, concurrency=concurrency)
    try:
        yield started
    finally:
        started.kill()
