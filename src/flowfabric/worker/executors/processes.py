"""Child processes for CPU handlers, each with a pipe. A process whose attempt is over is killed and replaced.

A thread talks to each process, so that a slow start or a large payload never blocks the event loop.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from datetime import UTC, datetime
from multiprocessing.process import BaseProcess
from typing import Final

import msgspec

from flowfabric.core.codec import decode_id
from flowfabric.worker.attempts.outcomes import CRASHED, Cancel, Fail, Outcome, RemoteError, Retry, Snooze
from flowfabric.worker.executors.process_child import (
    Answer,
    Emitted,
    Job,
    Logged,
    Progress,
    Raised,
    Returned,
    Said,
    send,
    serve,
)
from flowfabric.worker.executors.process_spending import OnSpend, Spend, Spoken
from flowfabric.worker.executors.threads import Threads

_answers: Final = msgspec.msgpack.Decoder(Answer, dec_hook=decode_id)

OnStart = Callable[[Callable[[], None] | None], None]
OnSaid = Callable[[Said], None]


class ProcessDied(Exception):
    """The process of a handler died: killed by the worker, by the kernel, or by a crash in native code."""


class Child:
    """One process."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        # A daemon process ends with its parent.
        self._process: BaseProcess = context.Process(target=serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self.ready = False

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def call(self, job: Job, on_said: OnSaid, on_spend: Callable[[Spend], Spoken]) -> Returned | Raised:
        """Run a job in the process. Blocks, so call it in a thread."""
        try:
            if not self.ready:
                self._receive()
                self.ready = True
            send(self._pipe, job)
            while not isinstance(answer := self._receive(), Returned | Raised):
                if isinstance(answer, Progress | Emitted | Logged):
                    on_said(answer)
                elif isinstance(answer, Spend):
                    send(self._pipe, on_spend(answer))
        except (EOFError, OSError) as cause:
            self._process.join()
            raise ProcessDied(f"the process ended with exit code {self._process.exitcode}") from cause
        return answer

    def _receive(self) -> Answer:
        answer: Answer = _answers.decode(self._pipe.recv_bytes())
        return answer

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        """Kill the process and wait for it. Blocks."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self._pipe.close()


class Processes:
    """At most `limit` processes, started as they are needed."""

    def __init__(self, limit: int, threads: Threads) -> None:
        self._threads = threads
        self._slots = asyncio.Semaphore(limit)
        self._idle: list[Child] = []
        self._all: set[Child] = set()
        self._closed = False

    async def run(self, job: Job, on_start: OnStart, on_said: OnSaid, on_spend: OnSpend) -> bytes:
        """The encoded result of a job; raises the exception of the handler.

        `on_start` gets None before a process is chosen, then a function that kills it. If it raises, no job runs.
        """
        loop = asyncio.get_running_loop()

        def spend(asked: Spend) -> Spoken:
            return asyncio.run_coroutine_threadsafe(on_spend(asked), loop).result()

        async with self._slots:
            on_start(None)
            child = await self._take()
            on_start(child.kill)
            try:
                answer = await self._threads.run(lambda: child.call(job, on_said, spend))
            except BaseException:
                await self._discard(child)
                raise
            self._idle.append(child)
        if isinstance(answer, Returned):
            return answer.payload
        error = as_raised(answer)
        error.failure_detail = answer.detail
        raise error

    async def close(self) -> None:
        self._closed = True
        for child in list(self._all):
            child.kill()
        for child in list(self._idle):
            await self._discard(child)

    async def _take(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            await self._discard(child)
        child = await self._threads.run(Child)
        self._all.add(child)
        return child

    async def _discard(self, child: Child) -> None:
        self._all.discard(child)
        if child in self._idle:
            self._idle.remove(child)
        await self._threads.run(child.end)


def as_raised(raised: Raised) -> Outcome | RemoteError:
    """The exception of the handler: the same outcome, or a RemoteError with its type and message."""
    match raised.kind:
        case "Retry":
            after = None if raised.after_ms is None else raised.after_ms / 1000
            return Retry(raised.reason, after=after)
        case "Snooze" if raised.until_ms is not None:
            return Snooze(raised.reason, until=datetime.fromtimestamp(raised.until_ms / 1000, UTC))
        case "Snooze":
            return Snooze(raised.reason, for_=(raised.after_ms or 0) / 1000)
        case "Fail":
            return Fail(raised.reason, category=raised.category, retryable=raised.retryable)
        case "Cancel":
            return Cancel(raised.reason)
        case _:
            return RemoteError(raised.reason, raised.names, raised.category)


def died(error: ProcessDied) -> Fail:
    return Fail(str(error), category=CRASHED)
