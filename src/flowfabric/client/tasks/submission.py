"""Turn the call of a task into the arguments of create_execution."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast
from weakref import WeakKeyDictionary

from msgspec.structs import force_setattr

from flowfabric import tracing
from flowfabric.client.ordered_uuids import OrderedUuids
from flowfabric.client.tasks import payloads
from flowfabric.client.tasks.options import duration_or_moment
from flowfabric.client.tasks.task import Task
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.ids import ExecutionId, Namespace
from flowfabric.core.partition import PartitionConfig, execution_partition


class Submitter:
    """Builds the arguments of create_execution. The part that all calls of a task share is validated once per task."""

    def __init__(self, partitions: PartitionConfig, namespace: Namespace, creator: str) -> None:
        self._partitions = partitions
        self.namespace = namespace
        self._creator = limits.label("creator", creator, 0, limits.CREATOR_IDENTITY_MAX_BYTES)
        self._uuids = OrderedUuids()
        self._forms: WeakKeyDictionary[Task[..., Any], _Form] = WeakKeyDictionary()

    def args(self, task: Task[..., Any], payload: bytes) -> c.CreateExecutionArgs:
        """The arguments for a call; the payload comes from encode_arguments or from a Call."""
        return self._form(task).filled(payload)

    def member_args(self, task: Task[..., Any], payload: bytes, execution_id: ExecutionId) -> c.CreateExecutionArgs:
        """The arguments for a member of a flow, which has an id already."""
        return self._form(task).filled(payload, execution_id)

    def check(self, tasks: Iterable[Task[..., Any]]) -> None:
        """Raise InvalidInput for tasks whose options contradict each other."""
        for task in set(tasks):
            self._form(task)

    def _form(self, task: Task[..., Any]) -> _Form:
        form = self._forms.get(task)
        if form is None:
            form = self._forms[task] = _Form(self._blank(task), self._partitions, self._uuids)
        return form

    def _blank(self, task: Task[..., Any]) -> c.CreateExecutionArgs:
        options = task.options
        once, in_turn = options.idempotency_key, options.concurrency_key
        delay_ms, delay_until = duration_or_moment("delay", options.delay)
        _, deadline_at = duration_or_moment("deadline", options.deadline)  # a duration is in the policy
        return c.CreateExecutionArgs(
            execution_id=ExecutionId.for_lane(
                options.lane_id, self._partitions, idempotency_key=once, concurrency_key=in_turn
            ),
            namespace=self.namespace,
            lane_id=options.lane_id,
            execution_kind=task.name,
            payload_encoding=payloads.ENCODING,
            priority=options.priority,
            creator_identity=self._creator,
            idempotency_key=once,
            concurrency_key=in_turn,
            tags=cast("dict[str, str]", options.tags),
            policy=options.policy,
            delay_ms=delay_ms,
            delay_until=delay_until,
            execution_deadline_at=deadline_at,
            on_duplicate=options.duplicate_mode,
        )


class _Form:
    """The arguments of one task without id and payload."""

    def __init__(self, blank: c.CreateExecutionArgs, partitions: PartitionConfig, uuids: OrderedUuids) -> None:
        self._uuids = uuids
        self._blank = blank
        self._partitions = partitions
        # Without shards, or with a key, every execution of the task is in the same partition.
        has_key = blank.idempotency_key is not None or blank.concurrency_key is not None
        self._tag = blank.execution_id.tag if has_key or partitions.lane_shards == 1 else None

    def filled(self, payload: bytes, execution_id: ExecutionId | None = None) -> c.CreateExecutionArgs:
        # All values were validated before, so set them without validating again.
        args: c.CreateExecutionArgs = self._blank.__copy__()  # type: ignore[attr-defined]
        force_setattr(args, "execution_id", execution_id or self._new_id())
        force_setattr(args, "input_payload", payload)
        if trace := tracing.current():
            _add_trace(args, trace)
        return args

    def _new_id(self) -> ExecutionId:
        uuid = self._uuids.next()
        tag = self._tag or execution_partition(self._blank.lane_id, self._partitions, uuid).tag
        return ExecutionId.trusted(f"{tag}:{uuid}")


def _add_trace(args: c.CreateExecutionArgs, trace: tracing.Carrier) -> None:
    """Make it a child of the current span, unless its tags name another span or there is no room for more tags."""
    tags = {**{tracing.OURS + name: value for name, value in trace.items()}, **args.tags}
    if len(tags) <= limits.MAX_TAGS:
        force_setattr(args, "tags", dict(sorted(tags.items())))
