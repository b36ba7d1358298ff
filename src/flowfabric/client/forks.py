"""Fork an execution: another one that begins with its recorded steps, up to a step, and may have another input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from flowfabric.backends.ports import EngineBackend
from flowfabric.client.flows.result_refs import as_inputs, filled
from flowfabric.client.ordered_uuids import OrderedUuids
from flowfabric.client.tasks import payloads
from flowfabric.client.tasks.task import Task
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.errors import InvalidInput

Step: TypeAlias = str | tuple[str, int]  # its name, or its name and how many of that name came before it
Input: TypeAlias = Mapping[str, Any] | Sequence[Any]  # the arguments by name, or by position

_uuids = OrderedUuids()


async def fork(
    backend: EngineBackend,
    source: ExecutionId,
    task: Task[..., Any] | None,
    from_step: Step | None,
    given: Input | None,
    changed: Mapping[Step, Any] | None,
) -> ExecutionId:
    """The id of the new execution."""
    payload, encoding = None, None
    if given is not None:
        payload, encoding = _encoded(task, given), payloads.ENCODING
    elif completed := await _completed(backend, source):
        payload, encoding = completed, payloads.ENCODING
    args = c.ForkExecutionArgs(
        execution_id=source,
        fork_id=ExecutionId(
            f"{source.tag}:{_uuids.next()}"
        ),  # chosen here, so that a repeated call makes no second one
        from_step=None if from_step is None else step_key("from_step", from_step),
        input_payload=payload,
        payload_encoding=encoding,
        changed=tuple(_changed(step, value) for step, value in (changed or {}).items()),
    )
    return (await backend.fork_execution(args)).execution_id


def step_key(field: str, given: Step) -> c.StepKey:
    """The key of a step given by its name, or by its name and occurrence."""
    if isinstance(given, str):
        return c.StepKey(name=given)
    if isinstance(given, tuple) and len(given) == 2:
        return c.StepKey(name=given[0], occurrence=given[1])
    raise InvalidInput(field, given, "must be the name of a step, or a pair of its name and occurrence")


def _changed(step: Step, value: Any) -> c.ChangedStep:
    key = step_key("changed", step)
    payload = payloads.encode(value, f"result of step {key.name!r}")
    return c.ChangedStep(step=key, payload=payload, encoding=payloads.ENCODING)


def _encoded(task: Task[..., Any] | None, given: Input) -> bytes:
    """The call as a payload, checked against the task if the handle has one."""
    if isinstance(given, str | bytes) or not isinstance(given, Mapping | Sequence):
        raise InvalidInput("input", given, "must be the task's arguments: a mapping by name, or a list by position")
    args = () if isinstance(given, Mapping) else tuple(given)
    kwargs = dict(given) if isinstance(given, Mapping) else {}
    if task is not None:
        return task.encode_arguments(*args, **kwargs)
    return payloads.encode({"args": args, "kwargs": kwargs}, "input")


async def _completed(backend: EngineBackend, source: ExecutionId) -> bytes | None:
    """The input of a member of a flow with the results that it was given: a fork has no edges to get them from."""
    info = await backend.get_execution(source)
    if info is None or info.flow_id is None:
        return None
    inputs = await backend.read_execution_inputs(source)
    context = await backend.read_execution_context(source)
    if not inputs or context.payload_encoding != payloads.ENCODING:
        return None
    given = {each.data_passing_ref: msgspec.Raw(each.payload) if each.payload else None for each in inputs}
    return filled(context.input_payload, as_inputs(given))
