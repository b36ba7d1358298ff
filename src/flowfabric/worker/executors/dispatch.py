"""Runs the handlers of tasks: on the event loop, in threads or in processes, with middleware around them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from flowfabric import tracing
from flowfabric.client.tasks.options import ms
from flowfabric.client.tasks.task import Task
from flowfabric.errors import InvalidInput
from flowfabric.worker.attempts.attempt import Attempt
from flowfabric.worker.attempts.outcomes import Interrupted
from flowfabric.worker.context.awaited import check_awaited, explained
from flowfabric.worker.context.context import Context, calls_of, check_steps, purse_of, send_additions
from flowfabric.worker.context.current import running
from flowfabric.worker.context.execution_log import begin_capture
from flowfabric.worker.context.streaming import emit_frame
from flowfabric.worker.executors.exits import ends_the_worker
from flowfabric.worker.executors.handler_codec import completed_payload, decoded, encoded
from flowfabric.worker.executors.process_child import Emitted, Job, Logged, Said
from flowfabric.worker.executors.process_spending import spoken
from flowfabric.worker.executors.processes import ProcessDied, died
from flowfabric.worker.executors.threads import is_async

if TYPE_CHECKING:
    from flowfabric.worker.context.services import Services

CallNext: TypeAlias = Callable[[], Awaitable[Any]]
Middleware: TypeAlias = Callable[[Context, CallNext], Awaitable[Any]]


class Reports(Protocol):
    """Where handlers report how their attempts ended."""

    def completed(self, attempt: Attempt, payload: bytes) -> None: ...

    def raised(self, attempt: Attempt, error: BaseException) -> None: ...


class Handler:
    """Runs the async function of one task on the event loop; the base of the other kinds.

    waits: whether an attempt of it has ever awaited something that was not ready.
    """

    waits = False

    def __init__(
        self, task: Task[..., Any], services: Services, reports: Reports, middleware: Sequence[Middleware] = ()
    ) -> None:
        self.task = task
        self.name = task.name
        self.timeout_ms = None if task.options.timeout is None else ms("timeout", task.options.timeout)
        self.changed_steps = task.options.changed_steps
        self._services = services
        self._reports = reports
        self._function = task.function
        self._takes_context = task.takes_context
        self._middleware = tuple(middleware)
        self._captures = services.logs.captures

    async def run(self, attempt: Attempt) -> None:
        """Run the attempt and report its end; raises only what ends the worker."""
        reports = self._reports
        if attempt.stop is not None:  # stopped before it started
            reports.raised(attempt, asyncio.CancelledError())
            return
        attempt.started = True
        running.set(partial(self._services.context_of, attempt))  # each attempt has its own context variables
        capture = begin_capture(partial(self._services.logs.keep, attempt)) if self._captures else None
        try:
            work = attempt.work
            args, kwargs = decoded(self.task, work.input_payload, work.payload_encoding, work.inputs)
            if self._middleware:
                value = await self._through_middleware(attempt, args, kwargs)
            else:
                value = await self.call(attempt, args, kwargs)
            context = attempt.context
            if context is None:
                payload = encoded(self.task, value)
            else:
                check_awaited(calls_of(context))
                payload = encoded(self.task, value)
                await check_steps(context, attempt)
                await send_additions(context)
        except BaseException as error:  # every attempt must end
            if capture is not None:
                capture.finish()
            if ends_the_worker(error, self._services.loop):
                raise
            reports.raised(attempt, explained(calls_of(attempt.context), error))
        else:
            if capture is not None:
                capture.finish()
            reports.completed(attempt, payload)

    def call(self, attempt: Attempt, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Awaitable[Any]:
        """Call the function itself."""
        if self._takes_context:
            return self._function(self._services.context_of(attempt), *args, **kwargs)  # type: ignore[no-any-return]
        return self._function(*args, **kwargs)  # type: ignore[no-any-return]

    def interrupt(self, attempt: Attempt) -> None:
        """Stop the function, here by cancelling its asyncio task."""
        if attempt.handle is not None and attempt.started:
            attempt.handle.cancel(str(attempt.stop))

    async def _through_middleware(self, attempt: Attempt, *call: Any) -> Any:
        context = self._services.context_of(attempt)

        def layer(depth: int) -> Awaitable[Any]:
            if depth == len(self._middleware):
                return self.call(attempt, *call)
            return self._middleware[depth](context, lambda: layer(depth + 1))

        return await layer(0)


class ThreadHandler(Handler):
    """Runs a plain function in a thread. It cannot be stopped from outside; its context tells it to stop."""

    waits = True

    async def call(self, attempt: Attempt, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._takes_context:
            args = (self._services.context_of(attempt), *args)
        value = await self._services.threads.run(lambda: self._function(*args, **kwargs))
        return await value if inspect.isawaitable(value) else value

    def interrupt(self, attempt: Attempt) -> None:
        attempt.stopping()


class ProcessHandler(Handler):
    """Runs a CPU-bound function in a process, which is killed when the attempt is over."""

    waits = True

    def __init__(
        self, task: Task[..., Any], services: Services, reports: Reports, middleware: Sequence[Middleware] = ()
    ) -> None:
        super().__init__(task, services, reports, middleware)
        self._module, self._qualname = check_importable(task)

    async def run(self, attempt: Attempt) -> None:
        if not self._middleware and attempt.stop is None:
            await self._run_encoded(attempt)
        else:
            await super().run(attempt)

    async def _run_encoded(self, attempt: Attempt) -> None:
        """Without middleware this process does not need to decode the arguments or the result."""
        attempt.started = True
        try:
            payload = await self._in_process(attempt)
        except BaseException as error:
            if ends_the_worker(error, self._services.loop):
                raise
            self._reports.raised(attempt, error)
        else:
            self._reports.completed(attempt, payload)

    async def call(self, attempt: Attempt, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.task.decode_result(await self._in_process(attempt))

    async def _in_process(self, attempt: Attempt) -> bytes:
        context = self._services.context_of(attempt)
        job = Job(
            module=self._module,
            qualname=self._qualname,
            name=self.name,
            execution_id=attempt.execution_id,
            attempt_index=attempt.attempt_index,
            lane=attempt.lane_id,
            namespace=context.namespace,
            deadline=context.deadline,
            payload=completed_payload(attempt.work.input_payload, attempt.work.inputs),
            encoding=attempt.work.payload_encoding,
            trace=dict(tracing.current()),
            logs=self._services.logs.in_process,
        )

        def started(kill: Callable[[], None] | None) -> None:
            if kill is None and attempt.stop is not None:
                raise Interrupted(attempt.stop)  # stopped while it waited for a process
            attempt.kill = kill
            if kill is not None and attempt.stop is not None:
                kill()

        def said(message: Said) -> None:
            if isinstance(message, Emitted):
                emit_frame(context, message.frame)
            elif isinstance(message, Logged):
                self._services.logs.keep(attempt, message.level, message.logger, message.message)
            else:
                context.progress(message.pct, message.message)

        try:
            return await self._services.processes.run(
                job, started, said, lambda spend: spoken(purse_of(context), spend)
            )
        except ProcessDied as error:
            raise died(error) from error

    def interrupt(self, attempt: Attempt) -> None:
        if attempt.kill is not None:
            attempt.kill()


def make_handler(
    task: Task[..., Any], services: Services, reports: Reports, middleware: Sequence[Middleware], *, cpu: bool
) -> Handler:
    """The right kind of handler for a task."""
    if cpu:
        return ProcessHandler(task, services, reports, middleware)
    kind = Handler if is_async(task.function) else ThreadHandler
    return kind(task, services, reports, middleware)


def check_importable(task: Task[..., Any]) -> tuple[str, str]:
    """Module and name by which a child process imports the function of a CPU task."""
    module, qualname = task.function.__module__, task.function.__qualname__
    if "<" in qualname:
        problem = "must be a function at the top level of a module, so that a process can import it"
        raise InvalidInput("cpu", task.name, problem)
    if is_async(task.function):
        raise InvalidInput("cpu", task.name, "must be a plain function; async ones run on the loop")
    return module, qualname
