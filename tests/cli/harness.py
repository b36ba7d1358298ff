"""How the tests run commands: in this process, and as processes of their own that go on."""

from __future__ import annotations

import asyncio
import functools
import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from typer import testing

from flowfabric.cli.app import app
from flowfabric.client.fabric import Fabric

COMMAND = [sys.executable, "-m", "flowfabric.cli"]
DEADLINE_S = 60.0

T = TypeVar("T")

# The commands are put together once: that takes longer than most of them run.
testing._get_command = functools.cache(testing._get_command)  # type: ignore[attr-defined]


@dataclass
class Ran:
    """What a command printed, and how it ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def error(self) -> Any:
        return json.loads(self.stderr)["error"]


@dataclass
class Cli:
    """Runs commands on one store."""

    url: str

    def __call__(self, *words: str, code: int = 0, stdin: str | None = None) -> Ran:
        """Run a command that must end with this exit code."""
        ran = run(*words, "--url", self.url, stdin=stdin)
        assert ran.code == code, (ran.stdout, ran.stderr)
        return ran

    def submit(self, *words: str) -> str:
        return self("submit", *words).stdout.strip()

    def on_store(self, body: Callable[[Fabric], Awaitable[T]]) -> T:
        """What no command does: prepare the store, or look into it."""

        async def connected() -> T:
            async with Fabric.connect(self.url) as fabric:
                return await body(fabric)

        return asyncio.run(connected())


def run(*words: str, stdin: str | None = None) -> Ran:
    """Run a command in this process, as into a pipe."""
    result = testing.CliRunner().invoke(app, words, prog_name="flowfabric", input=stdin)
    return Ran(result.exit_code, result.stdout, result.stderr)


class Running:
    """A command as a process of its own; its lines are read as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._coming: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._coming.put(line.rstrip("\n"))
        self._coming.put(None)

    def wait_for(self, text: str) -> str:
        """The next line that has this in it."""
        until = time.monotonic() + DEADLINE_S
        while True:
            try:
                line = self._coming.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no line with {text!r} within {DEADLINE_S} s, but {self.lines}") from None
            if line is None:
                raise AssertionError(f"ended without a line with {text!r}, but {self.lines}")
            self.lines.append(line)
            if text in line:
                return line

    @property
    def has_more(self) -> bool:
        """Whether a line came that was not waited for."""
        return not self._coming.empty()

    def rest(self) -> str:
        """What is printed until the end."""
        lines = []
        while (line := self._coming.get(timeout=DEADLINE_S)) is not None:
            lines.append(line)
        self.lines += lines
        return "\n".join(lines)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end, and wait: the exit code."""
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def running(*words: str, directory: Path | None = None) -> Iterator[Running]:
    """A command that goes on; killed at the end if it has not ended."""
    process = subprocess.Popen(
        [*COMMAND, *words], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    started = Running(process)
    try:
        yield started
    finally:
        started.close()


def has_shape(value: Any, golden: Any) -> bool:
    """Whether a value has the names and types of the golden one; it may have more names."""
    if isinstance(golden, dict):
        return isinstance(value, dict) and all(
            name in value and has_shape(value[name], each) for name, each in golden.items()
        )
    if isinstance(golden, list):
        return isinstance(value, list) and all(has_shape(value[0], each) for each in golden)
    return type(value).__name__ == golden
