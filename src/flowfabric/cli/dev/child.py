"""The worker of `dev`: a separate process, so that a reload starts afresh."""

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
    """`flowfabric worker` as a child process. Its stdin closes when this process ends, and then it ends, too."""

    def __init__(self, target: str, url: str, log_level: str, out: Output) -> None:
        self._command = [sys.executable, "-u", "-m", "flowfabric.cli", "worker", target]
        self._command += ["--log-level", log_level, "--until-eof"]
        if (
            url != Settings.from_env().url
        ):  # keep a URL from the environment off the command line: it may contain a password
            self._command += ["--url", url]
        self._out = out
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._told = False

    async def start(self) -> int:
        """Start it and return its process id."""
        self._told = False
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=_LONGEST_LINE,
            start_new_session=True,  # this process handles Ctrl-C and signals the worker once
        )
        assert process.stdout is not None
        self._reading = asyncio.create_task(self._read(process.stdout))
        return process.pid

    async def ended(self) -> int:
        """Wait for its end and its last line; returns the exit code, or the negative number of a signal."""
        assert self._process is not None
        assert self._reading is not None
        await asyncio.shield(self._reading)
        return await self._process.wait()

    async def stop(self, heard: Ending) -> int | None:
        """Drain and stop it; a second Ctrl-C or SIGTERM stops it at once."""
        process = self._process
        if process is None:
            return None
        if not self._told:  # a second signal would stop it at once
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
        """Print the worker's output."""
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # the line is too long
                continue
            if not line:
                return
            text = line.decode(errors="replace").rstrip("\n")
            if self._out.as_json:
                self._out.event("output", text, line=text)
            else:
                self._out.line(text)
