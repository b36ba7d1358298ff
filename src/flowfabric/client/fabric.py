"""Fabric: connect to a store, submit tasks, and get handles."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeAlias, TypeVar, overload

from flowfabric import tracing
from flowfabric.backends import open_backend
from flowfabric.backends.batching import Gatherer
from flowfabric.backends.ports import EngineBackend
from flowfabric.client.flows.flow import Flow
from flowfabric.client.flows.handle import FlowHandle
from flowfabric.client.handle import Handle, Submission
from flowfabric.client.limits import Budgets, Quotas
from flowfabric.client.operations import Operations
from flowfabric.client.tasks.registered import RegisteredTasks
from flowfabric.client.tasks.submission import Submitter
from flowfabric.client.tasks.task import Call, Task, by_name
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core.codec import relocate
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import ExecutionId, FlowId, Namespace
from flowfabric.errors import FlowFabricError, InvalidInput

P = ParamSpec("P")
R = TypeVar("R")

# The outcome of each of many submissions. Defined here, because inside Fabric `list` is a method.
Submissions: TypeAlias = list["Handle[R] | FlowFabricError"]

_Encoded: TypeAlias = tuple[Task[..., Any], bytes]  # a call: the task and its encoded arguments

# A bulk is sent in portions: the store works on one while the client encodes the next.
_PORTION: Final = 500
_PORTIONS_OUT: Final = 4

_SUBMISSIONS: Final[dict[type[c.CreateExecutionResult], Submission]] = {
    c.ExecutionCreated: "created",
    c.ExecutionDuplicate: "duplicate",
    c.ExecutionReplaced: "replaced",
}


class Fabric(Operations):
    """One store, for clients that submit and watch. Use it from one event loop; concurrent calls share batches.

    `creator` is stored with every submission. `backend` is the store with all its ports, for operations that have
    no method here.
    """

    def __init__(self, backend: EngineBackend, *, namespace: str = "default", creator: str = "") -> None:
        super().__init__(backend)
        self.budgets = Budgets(backend, namespace)
        self.quotas = Quotas(backend)
        self.namespace = Namespace(namespace)
        self._submitter = Submitter(backend.partitions, self.namespace, creator)
        self._gatherer = Gatherer(backend)
        self._registered = RegisteredTasks(backend, self.namespace)
        self._closed = False

    @classmethod
    @asynccontextmanager
    async def connect(cls, where: str | Settings | None = None, *, namespace: str = "default") -> AsyncIterator[Self]:
        """Connect to the store at a URL, or of these settings, for an `async with`; by default FLOWFABRIC_URL."""
        async with await cls.open(where, namespace=namespace) as fabric:
            yield fabric

    @classmethod
    async def open(cls, where: str | Settings | None = None, *, namespace: str = "default") -> Self:
        """The same without a block; the caller closes it."""
        Namespace(namespace)
        url, settings = (None, where) if isinstance(where, Settings) else (where, None)
        return cls(await open_backend(url, settings), namespace=namespace)

    async def close(self) -> None:
        """Wait for pending submissions, then close the store."""
        if self._closed:
            return
        self._closed = True
        await self._gatherer.close()
        await self.backend.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @overload
    async def submit(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
    @overload
    async def submit(self, task: str, /, *args: Any, **kwargs: Any) -> Handle[Any]: ...
    async def submit(self, task: Task[..., Any] | str, /, *args: Any, **kwargs: Any) -> Handle[Any]:
        """Submit one call of a task: `submit(task, *its arguments)`.

        Options belong to the task, so they cannot clash with arguments: `task.with_options(priority=5)`. A task given
        by name takes options beside the arguments: `submit("research", "tides", priority=5)`. Other options are those
        that a worker has registered with the task.
        """
        if isinstance(task, str):
            task, kwargs = by_name(task, kwargs, await self._registered.task(task))
        payload = _task(task).encode_arguments(*args, **kwargs)
        if tracing.is_on():
            return await self._submit_traced(task, payload)
        return self._handle(task, await self._gatherer.submit(self._submitter.args(task, payload)))

    async def _submit_traced(self, task: Task[..., Any], payload: bytes) -> Handle[Any]:
        with tracing.span("submit", task.name, "PRODUCER", task=task.name, lane=task.options.lane) as span:
            handle = self._handle(task, await self._gatherer.submit(self._submitter.args(task, payload)))
            span.note(execution_id=handle.id, outcome=handle.submission)
        return handle

    @overload
    async def submit_many(self, calls: Iterable[Call[R]], /) -> Submissions[R]: ...
    @overload
    async def submit_many(self, task: Task[..., R], calls: Iterable[tuple[Any, ...]], /) -> Submissions[R]: ...
    @overload
    async def submit_many(self, task: str, calls: Iterable[tuple[Any, ...]], /) -> Submissions[Any]: ...
    async def submit_many(self, first: Any, second: Iterable[tuple[Any, ...]] | None = None, /) -> Submissions[Any]:
        """Submit many calls in few steps: `submit_many(task.call(...) for ...)`, or `submit_many(task, [(1, 2), ...])`.

        A call that does not match its task's signature raises before anything is sent. The list has a handle or an
        error for each call.
        """
        if isinstance(first, str):
            first = await self._registered.task(first)
        calls = _calls(first, second)
        self._submitter.check(task for task, _ in calls)
        name = _name(calls) if tracing.is_on() else ""
        with tracing.span("submit", name, "PRODUCER", count=len(calls)):
            return await self._submit_portions(calls)

    async def _submit_portions(self, calls: list[_Encoded]) -> Submissions[Any]:
        portions = [calls[start : start + _PORTION] for start in range(0, len(calls), _PORTION)]
        sent: list[asyncio.Task[Submissions[Any]]] = []
        async with asyncio.TaskGroup() as group:
            for portion in portions:
                if len(sent) >= _PORTIONS_OUT:
                    await sent[-_PORTIONS_OUT]
                sent.append(group.create_task(self._submit_portion(portion)))
                await asyncio.sleep(0)  # let it be sent before the next one is encoded
        return [outcome for task in sent for outcome in task.result()]

    async def _submit_portion(self, calls: list[_Encoded]) -> Submissions[Any]:
        outcomes: list[b.SubmitOutcome]
        try:
            outcomes = await self.backend.submit_executions([self._submitter.args(*call) for call in calls])
        except FlowFabricError as error:  # other portions may have been accepted
            outcomes = [error] * len(calls)
        return [
            outcome if isinstance(outcome, FlowFabricError) else self._handle(task, outcome)
            for (task, _), outcome in zip(calls, outcomes, strict=True)
        ]

    @overload
    def handle(self, execution_id: str, task: Task[..., R]) -> Handle[R]: ...
    @overload
    def handle(self, execution_id: str, task: None = None) -> Handle[Any]: ...
    def handle(self, execution_id: str, task: Task[..., Any] | None = None) -> Handle[Any]:
        """A handle for an execution by its id; with its task the result has the task's type."""
        return Handle(self.backend, ExecutionId(execution_id), None if task is None else _task(task))

    def flow(
        self,
        name: str,
        *,
        lane: str = "default",
        failure_policy: c.FailurePolicy | str = c.FailurePolicy.CONTINUE,
        idempotency_key: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Flow:
        """A graph of tasks, built in a block and submitted as a whole at its end.

        `lane` decides where the flow is stored: choose the lane of most of its tasks, so that workers claim them
        together with the lane's other executions. `failure_policy` decides what an unhandled failure does: with
        "continue" nodes that do not depend on it still run, with "fail_fast" the rest is cancelled. A flow submitted
        again with the same idempotency key is the same flow.
        """
        return Flow(self, name, lane=lane, failure_policy=failure_policy, idempotency_key=idempotency_key, tags=tags)

    def flow_handle(self, flow_id: str) -> FlowHandle:
        """A handle for a flow by its id."""
        return FlowHandle(self.backend, FlowId(flow_id))

    def _handle(self, task: Task[..., R], outcome: c.CreateExecutionResult) -> Handle[R]:
        return Handle(self.backend, outcome.execution_id, task, submission=_SUBMISSIONS[type(outcome)])


async def registered_task(fabric: Fabric, name: str) -> Task[..., Any]:
    """A task by its name, with the options that a worker has registered."""
    return await fabric._registered.task(name)


def _task(given: Task[P, R]) -> Task[P, R]:
    if not isinstance(given, Task):
        raise InvalidInput("task", given, "must be a task, made with @task or @worker.task, or a task's name")
    return given


def _calls(first: Any, second: Iterable[tuple[Any, ...]] | None) -> list[_Encoded]:
    if second is None:
        return [_opened(at, call) for at, call in enumerate(first)]
    task: Task[..., Any] = _task(first)
    return [(task, _encoded(task, at, args)) for at, args in enumerate(second)]


def _name(calls: list[_Encoded]) -> str:
    """The name of their task if all have the same, else "many"."""
    names = {task.name for task, _ in calls}
    return names.pop() if len(names) == 1 else "many"


def _opened(at: int, call: Call[Any]) -> _Encoded:
    if not isinstance(call, Call):
        raise InvalidInput(f"calls[{at}]", call, "must be made with task.call(...)")
    return call.task, call.payload


def _encoded(task: Task[..., Any], at: int, args: tuple[Any, ...]) -> bytes:
    if not isinstance(args, tuple | list):
        raise InvalidInput(
            f"calls[{at}]", args, "must be a tuple of arguments; for keyword arguments use task.call(...)"
        )
    try:
        return task.encode_arguments(*args)
    except InvalidInput as error:
        raise relocate(error, f"calls[{at}].{error.field}") from None
