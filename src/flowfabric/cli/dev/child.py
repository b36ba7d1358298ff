"""The worker of `dev`: a process of its own, so that a reload starts from nothing."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from typing import Final

from flowfabric.cli.show.output import Output
from flowfabric.cli.signals import Ending
from flowfabric.config import Settings

_LONGEST_LINE: Final = 1_048_576
_KILL_AFTER_S: Final = 5.0


class WorkerProcess:
    """`flowfabric worker` as a child. It ends with this process, however this process ends: its stdin closes."""

    def __init__(self, target: str, url: str, log_level: str, out: Output) -> None:
        self._command = [sys.executable, "-u", "-m", "flowfabric.cli", "worker", target]
        self._command += ["--log-level", log_level, "--until-eof"]
        if url != Settings.from_env().url:  # what the environment says stays there: it may hold a password
            self._command += ["--url", url]
        self._out = out
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._told = False

    async def start(self) -> int:
        """Start it; its process id."""
        self._told = False
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=_LONGEST_LINE,
            start_new_session=True,  # Ctrl-C is ours to hear; the worker is told once, by us
        )
        assert process.stdout is not None
        self._reading = asyncio.create_task(self._read(process.stdout))
        return process.pid

    async def ended(self) -> int:
        """Wait for its end, and for its last line; the exit code, or the signal as a negative number."""
        assert self._process is not None
        assert self._reading is not None
        await asyncio.shield(self._reading)
        return await self._process.wait()

    async def stop(self, heard: Ending) -> int | None:
        """Have it drain and end; at once when this process is asked to end a second time."""
        process = self._process
        if process is None:
            return None
        if not self._told:  # a second time would stop it at once
            self._told = True
            self._send(signal.SIGTERM)
        ended, hurry = asyncio.create_task(self.ended()), asyncio.create_task(heard.asked_again.wait())
        await asyncio.wait({ended, hurry}, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not ended.done():
            self._send(signal.SIGTERM)
            await asyncio.wait({ended}, timeout=_KILL_AFTER_S)
        if not ended.done():
            self._send(signal.SIGKILL)
        return await ended

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it has ended by itself
            if self._process is not None:
                self._process.send_signal(number)

    async def _read(self, stream: asyncio.StreamReader) -> None:
        """Print what it prints."""
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # longer than the longest
                continue
            if not line:
                return
            text = line.decode(errors="replace").rstrip("\n")
            if self._out.as_json:
                self._out.event("output", text, line=text)
            else:
                self._out.line(text)
