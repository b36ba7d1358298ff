"""A handle: wait for one execution, read it, signal it and change it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

from flowfabric import tracing
from flowfabric.backends.ports import EngineBackend
from flowfabric.client import forks, logs, streaming
from flowfabric.client.failures import failure_of
from flowfabric.client.forks import Input, Step
from flowfabric.client.signals import link_to, signal_when_taken, to_execution
from flowfabric.client.streaming import Attempts, StreamItem
from flowfabric.client.tasks import payloads
from flowfabric.client.tasks.options import Duration, ms
from flowfabric.client.tasks.task import Task
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.ids import ExecutionId, WaitpointId
from flowfabric.core.states import PublicState
from flowfabric.errors import ExecutionNotFound, InvalidInput

R = TypeVar("R")

Submission: TypeAlias = Literal["created", "duplicate", "replaced"]


class Handle(Generic[R]):
    """One execution. `await handle` returns its result, of the task's return type.

    A handle holds no connection and no state: create as many as you like, in any process, with `fabric.handle(id)`.
    `submission` is the outcome of `submit`: the execution was "created", or its idempotency key already named one,
    which was left unchanged ("duplicate") or got the new content ("replaced"). None without a submission.
    """

    def __init__(
        self,
        backend: EngineBackend,
        execution_id: ExecutionId,
        task: Task[..., R] | None = None,
        *,
        submission: Submission | None = None,
    ) -> None:
        self._backend = backend
        self._task = task
        self.id = execution_id
        self.submission = submission

    def __repr__(self) -> str:
        return f"Handle({self._name!r}, {self.id.short!r})" if self._name else f"Handle({self.id.short!r})"

    def __await__(self) -> Generator[Any, None, R]:
        return self.result().__await__()

    async def result(self, timeout: Duration | None = None) -> R:  # noqa: ASYNC109 - the store waits, not this process
        """Wait for the end and return the task's result.

        Raises ExecutionFailed, ExecutionCancelled, ExecutionExpired or ExecutionSkipped when it ended without a
        result, and TimeoutError after `timeout`; the execution continues then.
        """
        until, seconds = _until(timeout)
        while True:
            state = await self._wait(until, seconds)
            if state is not PublicState.COMPLETED:
                if failure := failure_of(await self.describe(), self._name):
                    raise failure
            elif found := await self.raw_result():
                return self._decoded(found)
            # It was replayed between the two reads, so wait for its next end.

    async def raw_result(self) -> c.ExecutionResult | None:
        """The result's bytes and encoding, whatever program wrote them; None without a result."""
        return await self._backend.get_execution_result(self.id)

    async def wait(self, timeout: Duration | None = None) -> PublicState:  # noqa: ASYNC109 - the store waits, not this process
        """Wait for the end, however it ends, and return the state; raises TimeoutError after `timeout`."""
        return await self._wait(*_until(timeout))

    async def status(self) -> PublicState:
        """Its state."""
        state = await self._backend.get_execution_state(self.id)
        if state is None:
            raise self._not_found()
        return state

    async def describe(self) -> c.ExecutionSnapshot:
        """Its state with attempt, lease, progress, last failure and tags."""
        snapshot = await self._backend.describe_execution(self.id)
        if snapshot is None:
            raise self._not_found()
        return snapshot

    async def attempts(self, *, from_index: int = 0, limit: int = 100) -> list[c.AttemptRecord]:
        """Its attempts, oldest first."""
        return await self._backend.list_attempts(self.id, from_index=from_index, limit=limit)

    async def history(self, *, cursor: str | None = None, limit: int = 100) -> c.EventPage:
        """Its events so far, oldest first."""
        return await self._backend.history(self.id, cursor=cursor, limit=limit)

    def events(self, *, cursor: str | None = None) -> AsyncIterator[c.Event]:
        """Its events, past and new, until it ends; `cursor` is that of the last event seen."""
        return self._backend.tail_events(self.id, cursor=cursor)

    def stream(
        self, *, after: str | None = None, attempts: Attempts = "latest", live: bool = True
    ) -> AsyncGenerator[StreamItem, None]:
        """Its output as it is emitted, from the beginning or after the cursor `after`, until it ends.

        It ends with what one undisturbed run would have shown. An item with `is_reset` means: discard the items so far,
        what still counts comes again. `attempts="all"` yields every frame of every attempt in turn. `live=False` leaves
        out best-effort frames.
        """
        return streaming.stream(self._backend, self.id, after=after, attempts=attempts, live=live)

    def logs(
        self, *, after: str | None = None, attempt: int | None = None, level: str = "debug", follow: bool = False
    ) -> AsyncGenerator[c.LogRecord, None]:
        """What its handlers logged, oldest first, from the beginning or after the cursor `after`.

        Of one attempt or all, from a level on. With `follow` also new records, until it ends.
        """
        return logs.logs(self._backend, logs.wanted(self.id, after=after, attempt=attempt, level=level), follow=follow)

    async def summary(self) -> dict[str, Any] | None:
        """The merged summary frames of its latest attempt, and of the steps that it skipped; None without any."""
        return await streaming.summary(self._backend, self.id)

    async def signal(
        self,
        name: str,
        payload: object = None,
        *,
        waitpoint: str | None = None,
        source: str = "",
        idempotency_key: str | None = None,
        wait: Duration | None = None,
    ) -> c.SignalOutcome:
        """Send it a signal, to the waitpoint that takes this name, or to the waitpoint with the key `waitpoint`.

        The payload is sent as JSON; `source` is the sender. With `wait` the signal may arrive before the execution
        waits for it: it is delivered as soon as a waitpoint takes it; raises TimeoutError if none does in time. An
        execution that has ended refuses it. InvalidAnswer: the payload does not fit the type of the wait.
        """
        with tracing.span("signal", name, "PRODUCER", execution_id=self.id):
            args = to_execution(
                self.id, name, payload, waitpoint=waitpoint, source=source, idempotency_key=idempotency_key
            )
            if wait is None:
                return await self._backend.signal_execution(args)
            return await signal_when_taken(self._backend, args, ms("wait", wait))

    async def waitpoints(self, *, cursor: str | None = None, limit: int = 100) -> c.ListPendingWaitpointsPage:
        """Its open waitpoints and the signals they wait for, without their tokens."""
        after = None if cursor is None else WaitpointId(cursor)
        args = c.ListPendingWaitpointsArgs(execution_id=self.id, after=after, limit=limit)
        return await self._backend.list_pending_waitpoints(args)

    async def link(self, name: str | None = None, *, waitpoint: str | None = None, base: str | None = None) -> str:
        """A URL for signalling its only open waitpoint, or the one with the key `waitpoint`.

        It contains the waitpoint's token, so anyone who has it may signal. `name` is the signal's default name, `base`
        the server's address, by default FLOWFABRIC_CALLBACK_URL.
        """
        base = Settings.from_env().callback_url if base is None else base
        return await link_to(self._backend, self.id, name, waitpoint, base)

    async def resume(self, *, delay: Duration = 0) -> PublicState:
        """End its suspension without a signal and return its new state: waiting, or delayed."""
        args = c.ResumeExecutionArgs(execution_id=self.id, resume_delay_ms=ms("delay", delay))
        return (await self._backend.resume_execution(args)).public_state

    async def cancel(self, reason: str = "") -> None:
        """Cancel it. Raises Conflict when it has already ended in another state."""
        source = c.CancelSource.OPERATOR_OVERRIDE
        await self._backend.cancel_execution(c.CancelExecutionArgs(execution_id=self.id, reason=reason, source=source))

    async def retry(self) -> None:
        """Run it again after it failed, expired or was cancelled: recorded steps are kept and not run again.

        It gets a new attempt and all retries of its policy. Raises Conflict in any other state.
        """
        await self._backend.retry_execution(c.RetryExecutionArgs(execution_id=self.id))

    async def fork(
        self,
        from_step: Step | None = None,
        *,
        input: Input | None = None,  # noqa: A002
        changed: Mapping[Step, Any] | None = None,
    ) -> Handle[R]:
        """A new execution that begins with the steps recorded before `from_step`, by default with all of them.

        `from_step` is the name of a step, or its name and occurrence. `input` are other arguments, by name or by
        position; `changed` has other results of recorded steps. The execution must not be running; it stays as it is.
        """
        found = await forks.fork(self._backend, self.id, self._task, from_step, input, changed)
        return Handle(self._backend, found, self._task, submission="created")

    async def replay(self) -> None:
        """Run an ended execution again from its beginning, without its recorded steps: same id, one more attempt."""
        await self._backend.replay_execution(c.ReplayExecutionArgs(execution_id=self.id))

    async def change(self, *, priority: int | None = None, tags: Mapping[str, str] | None = None) -> None:
        """Change its priority within its lane while it waits, and add or overwrite tags; other tags stay."""
        if priority is None and tags is None:
            raise InvalidInput("priority", None, "give a priority, tags or both")
        ranked = None if priority is None else c.ChangePriorityArgs(execution_id=self.id, new_priority=priority)
        tagged = None if tags is None else c.SetExecutionTagsArgs(execution_id=self.id, tags=dict(tags))
        if ranked is not None:  # first: only this can be refused because of the state
            await self._backend.change_priority(ranked)
        if tagged is not None:
            await self._backend.set_execution_tags(tagged)

    @property
    def _name(self) -> str | None:
        return self._task.name if self._task else None

    async def _wait(self, until: float | None, seconds: float) -> PublicState:
        while True:
            left = limits.MAX_DURATION_MS if until is None else max(0, round((until - _now()) * 1000))
            state = await self._backend.wait_for_execution(self.id, timeout_ms=left)
            if state is not None:
                return state
            if until is not None:
                raise TimeoutError(
                    f"{self!r} is still {await self.status()} after {seconds:g} seconds; it continues. Wait again, "
                    "cancel() it, or see describe() for its state"
                )

    def _decoded(self, found: c.ExecutionResult) -> R:
        if not found.payload:  # completed by hand, without a result
            return cast("R", None)
        if found.encoding not in (payloads.ENCODING, None):
            problem = f"must be {payloads.ENCODING!r} to be decoded; raw_result() returns the bytes"
            raise InvalidInput("result_encoding", found.encoding, problem)
        if self._task is not None:
            return self._task.decode_result(found.payload, is_labelled=found.encoding is not None)
        decode = payloads.decode if found.encoding else payloads.decode_unlabelled
        return cast("R", decode(found.payload, payloads.decode_any, "result"))

    def _not_found(self) -> ExecutionNotFound:
        return ExecutionNotFound(f"{self.id}: no such execution", execution_id=str(self.id))


def _now() -> float:
    return asyncio.get_running_loop().time()


def _until(timeout: Duration | None) -> tuple[float | None, float]:
    """The deadline on this process's clock, and the timeout in seconds."""
    if timeout is None:
        return None, 0.0
    seconds = ms("timeout", timeout) / 1000
    return _now() + seconds, seconds
