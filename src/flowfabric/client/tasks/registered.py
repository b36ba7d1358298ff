"""Options of tasks that workers have registered, for callers that submit by name.

An option that the caller gives wins over the registered one. What was read is used for a few seconds, so a name that is
submitted often costs one more call now and then.
"""

from __future__ import annotations

import time
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, Final, cast

from flowfabric.backends.ports import EngineBackend
from flowfabric.client.tasks.options import OPTION_NAMES, Options, TaskOptions
from flowfabric.client.tasks.task import Task, named
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.codec import to_json
from flowfabric.core.ids import Namespace
from flowfabric.core.policy import RetryPolicy, retry_policy_from_json, retry_policy_to_json
from flowfabric.errors import FlowFabricError, InvalidInput

_FRESH_S: Final = 5.0
_MOST: Final = 1_000
_DEFAULTS: Final = TaskOptions()


def entry_of(task: Task[..., Any]) -> c.TaskEntry:
    """A task as a worker registers it: its lane, and the options that differ from the defaults."""
    options = {name: value for name, value in _plain(task.options).items() if name == "lane" or _differs(task, name)}
    if len(to_json(options)) > limits.TASK_OPTIONS_MAX_BYTES:
        options = {"lane": task.options.lane}
    return c.TaskEntry(name=task.name, options=options)


def _differs(task: Task[..., Any], name: str) -> bool:
    return bool(getattr(task.options, name) != getattr(_DEFAULTS, name))


def _plain(options: TaskOptions) -> dict[str, Any]:
    """The options as JSON values, durations in seconds. Points in time are left out: they are of one submission."""
    found = {field.name: getattr(options, field.name) for field in fields(options)}
    return {name: _value(value) for name, value in found.items() if not isinstance(value, datetime)}


def _value(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, RetryPolicy):
        return {"policy": retry_policy_to_json(value)}
    return sorted(value) if isinstance(value, set | frozenset) else value


def options_of(registered: dict[str, Any]) -> Options:
    """The options of a registered task; unknown ones are of another version and are ignored."""
    found = {name: value for name, value in registered.items() if name in OPTION_NAMES}
    if isinstance(retry := found.get("retry"), dict):
        found["retry"] = retry_policy_from_json(str(retry.get("policy", "")))
    return cast("Options", found)  # checked when the task is made


class RegisteredTasks:
    """Tasks by name, with the options that workers of a namespace have registered."""

    def __init__(self, backend: EngineBackend, namespace: Namespace) -> None:
        self._backend = backend
        self._namespace = namespace
        self._known: dict[str, tuple[float, dict[str, Any], Task[..., Any]]] = {}

    async def task(self, name: str) -> Task[..., Any]:
        """A task whose function is elsewhere, with its registered options."""
        found = self._known.get(name)
        if found is None or found[0] <= time.monotonic():
            found = await self._read(name, found)
        return found[2]

    async def chosen(self, name: str, given: dict[str, Any]) -> Task[..., Any]:
        """The same, with the options that the caller gave."""
        task = await self.task(name)
        return task.with_options(**cast("Options", given)) if given else task

    async def _read(
        self, name: str, before: tuple[float, dict[str, Any], Task[..., Any]] | None
    ) -> tuple[float, dict[str, Any], Task[..., Any]]:
        options = await self._options(name)
        # The same object as before, so that what was made for it is used again.
        task = before[2] if before is not None and before[1] == options else _task(name, options)
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[name] = (time.monotonic() + _FRESH_S, options, task)
        return self._known[name]

    async def _options(self, name: str) -> dict[str, Any]:
        """None registered, or not to be seen by this caller: the defaults hold."""
        try:
            page = await self._backend.list_tasks(c.ListTasksArgs(namespace=self._namespace, name=name, limit=1))
        except InvalidInput:
            raise
        except FlowFabricError:
            return {}
        return page.tasks[0].options if page.tasks else {}


def _task(name: str, registered: dict[str, Any]) -> Task[..., Any]:
    try:
        return named(name, **options_of(registered))
    except (InvalidInput, TypeError, ValueError):  # of a worker with other rules
        return named(name)
