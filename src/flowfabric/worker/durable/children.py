"""`ctx.submit`: a handler submits another execution, once, and can wait for its end without holding a worker.

The id is recorded before the submission and the outcome after it, so a crash in between finds the same execution. To
wait, the handler makes a waitpoint and registers as a watcher of the child; the engine signals it when the child ends.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from flowfabric.client.handle import Handle, Submission
from flowfabric.client.tasks import payloads
from flowfabric.client.tasks.options import Duration, ms
from flowfabric.client.tasks.submission import Submitter
from flowfabric.client.tasks.task import Task, by_name, given_options
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.conditions import ByName, Single
from flowfabric.core.contracts.events import ENDINGS
from flowfabric.core.ids import ExecutionId, WaitpointKey
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.core.rules.waits.children import CHILD_ENDED, child_key
from flowfabric.core.states import PublicState
from flowfabric.errors import InvalidInput
from flowfabric.worker.durable import signal_waits, values
from flowfabric.worker.durable.journal import RESERVED, Journal
from flowfabric.worker.durable.occurrences import Occurrence
from flowfabric.worker.durable.signal_waits import Terms, Wait
from flowfabric.worker.durable.signals import ResumedWithoutSignal
from flowfabric.worker.executors.handler_codec import reader

R = TypeVar("R")

PARENT_TAG: Final = "flowfabric.parent"

_ENDED: Final = frozenset(ENDINGS.values())
_REASON: Final = c.SuspensionReasonCode.WAITING_FOR_CALLBACK
_WAITPOINT_LIFE_S: Final = limits.MAX_DURATION_MS / 1_000
_SUBMISSIONS: Final[dict[type[Any], Submission]] = {
    c.ExecutionCreated: "created",
    c.ExecutionDuplicate: "duplicate",
    c.ExecutionReplaced: "replaced",
}


class _Child(msgspec.Struct, frozen=True):
    """The record of a submission."""

    id: str
    submission: Submission


class _Call(NamedTuple):
    """A call to submit; options: those given with the name of a task, None for a task."""

    task: Task[..., Any]
    payload: bytes
    options: dict[str, Any] | None


class ChildHandle(Handle[R]):
    """A handle whose waits suspend the handler that made it: meanwhile it holds no worker.

    The handler is run again when the child has ended. `result` and `wait` can be called only by the handler itself.
    """

    def __init__(self, journal: Journal, child: _Child, task: Task[..., R] | None) -> None:
        super().__init__(journal.services.backend, ExecutionId(child.id), task, submission=child.submission)
        self._journal = journal

    async def result(self, timeout: Duration | None = None) -> R:  # noqa: ASYNC109 - the store waits, not this process
        """The child's result. Raises like any handle's when it ended without one, and TimeoutError after `timeout`."""
        await _until_ended(self._journal, self, timeout)
        return await super().result()

    async def wait(self, timeout: Duration | None = None) -> PublicState:  # noqa: ASYNC109 - the store waits, not this process
        """Wait for the child's end, however it ends, and return its state."""
        await _until_ended(self._journal, self, timeout)
        return await super().wait()


def begin(
    journal: Journal, task: Task[..., Any] | str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Coroutine[Any, Any, ChildHandle[Any]]:
    """Number the submission now; the returned coroutine submits, or finds what an earlier pass has submitted."""
    journal.check("ctx.submit")
    options: dict[str, Any] | None = None
    if isinstance(task, str):
        options = given_options(kwargs)
        task, kwargs = by_name(task, kwargs)
    if not isinstance(task, Task):
        raise InvalidInput("task", task, "must be a task, made with @task or @worker.task, or a task's name")
    payload = task.encode_arguments(*args, **kwargs)
    chosen = journal.take(f"{RESERVED}child:{task.name}")
    done = journal.take(f"{RESERVED}submitted:{task.name}")
    return _submit(journal, _Call(task, payload, options), chosen, done)


async def _submit(journal: Journal, call: _Call, chosen: Occurrence, done: Occurrence) -> ChildHandle[Any]:
    try:
        await journal.loaded()
        record = journal.find(done)
        if record is not None:
            child: _Child = reader(_Child, "child")(record.payload)
        else:
            async with journal.gate.beside():
                journal.attempt.check()
                child = await _submit_once(journal, call, chosen, done)
    except BaseException:
        journal.give_back(chosen)
        journal.give_back(done)
        raise
    return ChildHandle(journal, child, call.task)


async def _task_of(journal: Journal, call: _Call) -> Task[..., Any]:
    """A task given by name has the options that workers have registered, and those of the call."""
    if call.options is None:
        return call.task
    return await journal.services.registered.chosen(call.task.name, call.options)


async def _submit_once(journal: Journal, call: _Call, chosen: Occurrence, done: Occurrence) -> _Child:
    """Record the id, submit under it, and record the outcome: after a crash the same id is submitted again."""
    services = journal.services
    submitter = Submitter(
        services.backend.partitions, services.settings.namespace, services.settings.worker_instance_id
    )
    args = submitter.args(await _task_of(journal, call), call.payload)
    record = journal.find(chosen)
    text = record.payload if record is not None else payloads.to_json(str(args.execution_id))
    if record is None:
        text = await journal.record(chosen, text)
    args = replace(args, execution_id=ExecutionId(payloads.decode_any(text)), tags=_with_parent(journal, args.tags))
    outcome = await journal.services.tasks.see_through(lambda: services.backend.create_execution(args))
    is_ours = outcome.execution_id == args.execution_id  # a repeated submission of ours is no duplicate
    child = _Child(str(outcome.execution_id), "created" if is_ours else _SUBMISSIONS[type(outcome)])
    await journal.record(done, payloads.to_json(child))
    return child


def _with_parent(journal: Journal, tags: dict[str, str]) -> dict[str, str]:
    """Name the parent, unless there is no room for more tags."""
    if len(tags) >= limits.MAX_TAGS:
        return tags
    return dict(sorted({PARENT_TAG: str(journal.attempt.execution_id), **tags}.items()))


async def _until_ended(journal: Journal, child: ChildHandle[Any], timeout: Duration | None) -> None:  # noqa: ASYNC109
    """Return when the child has ended; until then the execution is suspended.

    Whether it had ended when it was first asked is recorded, so that every pass goes the same way.
    """

    async def has_ended(_: Occurrence) -> bytes:
        return payloads.to_json(await child.status() in _ENDED)

    key = child_key(child.id)
    while not payloads.decode_any(await journal.once("submit", f"ended:{key}", has_ended)):
        await _wait(journal, child, key, timeout)
        if await child.status() in _ENDED:
            return  # otherwise it was replayed meanwhile


async def _wait(journal: Journal, child: ChildHandle[Any], key: str, timeout: Duration | None) -> None:  # noqa: ASYNC109
    place = journal.open_waitpoints.get(WaitpointKey(key)) or await values.waitpoint(journal, key, _WAITPOINT_LIFE_S)
    if not _is_over(journal, key) and await _has_ended_meanwhile(journal, child):
        return
    timeout_ms = None if timeout is None else ms("timeout", timeout, low=1)
    terms = Terms(_REASON, timeout_ms, TimeoutBehavior.AUTO_RESUME_WITH_TIMEOUT_SIGNAL)
    pending = c.PendingWaitpoint(waitpoint_id=place.id, waitpoint_key=place.key)
    wait = Wait(Single(place.key, ByName(CHILD_ENDED)), (pending,), terms)
    end = (await signal_waits.wait_until_over(journal, "handle.result", key, lambda: wait)).end
    journal.used.add(place.id)
    if end.is_timeout:
        raise TimeoutError(f"{child!r} has not ended in time; it continues")
    if not end.told:
        raise ResumedWithoutSignal(f"an operator ended the wait for {child!r}")


def _is_over(journal: Journal, name: str) -> bool:
    """Whether the next wait of this name ended in an earlier pass."""
    wait = journal.take(name)
    journal.give_back(wait)
    return journal.end_of(wait) is not None


async def _has_ended_meanwhile(journal: Journal, child: ChildHandle[Any]) -> bool:
    """Register for the end. The waitpoint exists by now, so a signal from here on is kept."""
    args = c.WatchExecutionArgs(execution_id=child.id, watcher_id=journal.attempt.execution_id)
    return isinstance(await journal.services.backend.watch_execution(args), c.WatchedHasEnded)
