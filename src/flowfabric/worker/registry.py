"""The tasks of a worker, and the decorator that adds to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from flowfabric.client.tasks.options import Options
from flowfabric.client.tasks.registered import entry_of
from flowfabric.client.tasks.task import Task, TaskContext, TaskOptions
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.errors import InvalidInput
from flowfabric.worker.executors.dispatch import check_importable

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=TaskContext)


class Registry:
    """Tasks by name, and which of them run in processes."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task[..., Any]] = {}
        self.cpu: set[str] = set()

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names that claims send, so that the store gives no other work; empty if they are too many."""
        return tuple(sorted(self.tasks)) if len(self.tasks) <= limits.MAX_TASK_NAMES else ()

    @property
    def entries(self) -> tuple[c.TaskEntry, ...]:
        """The tasks as the worker registers them in the store."""
        return tuple(entry_of(self.tasks[name]) for name in self.kinds)

    def add(self, task: Task[..., Any], *, cpu: bool = False) -> None:
        known = self.tasks.get(task.name)
        if known is not None and known.function is not task.function:
            raise InvalidInput("task", task.name, "is the name of another function, too; give one of them name=...")
        if cpu:
            check_importable(task)
            self.cpu.add(task.name)
        self.tasks[task.name] = task


class WorkerTaskDecorator:
    """`@worker.task`, or with options `@worker.task(retry=3, timeout=60, cpu=True)`: makes a task and adds it.

    A task without a lane gets the worker's first lane.
    """

    def __init__(self, registry: Registry, options: TaskOptions, *, name: str | None = None, cpu: bool = False) -> None:
        self._registry, self._name, self._cpu, self._options = registry, name, cpu, options

    @overload
    def __call__(self, function: Callable[Concatenate[C, P], Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[C, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def __call__(
        self, function: None = None, /, *, name: str | None = None, cpu: bool = False, **options: Unpack[Options]
    ) -> WorkerTaskDecorator: ...
    def __call__(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        cpu: bool = False,
        **options: Any,
    ) -> Any:
        name, cpu, chosen = name or self._name, cpu or self._cpu, self._options.changed(**options)
        if function is None:
            return WorkerTaskDecorator(self._registry, chosen, name=name, cpu=cpu)
        task: Task[..., Any] = Task(function, name=name, options=chosen)
        self._registry.add(task, cpu=cpu)
        return task
