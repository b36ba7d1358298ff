"""Workers: register, heartbeat, and list live workers with their lanes and capabilities."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

from flowfabric.core import codec, limits
from flowfabric.core.contracts.events import Cursor
from flowfabric.core.contracts.fields import Capabilities, Checked, ExecutionKind, Outcome, Reason, Rule, ScanLimit
from flowfabric.core.ids import LaneId, Namespace, TimestampMs, WorkerId, WorkerInstanceId
from flowfabric.errors import InvalidInput


def _lanes(field: str, value: Any) -> tuple[LaneId, ...]:
    """The names without repeats, sorted; a lone string would otherwise become one lane per letter."""
    if not isinstance(value, tuple | list | set | frozenset) or not value:
        raise InvalidInput(field, value, "must be a collection of at least one lane")
    if len(value) > limits.MAX_LANES:
        raise InvalidInput(field, len(value), f"must hold at most {limits.MAX_LANES} lanes")
    try:
        return tuple(sorted({LaneId(each) for each in value}))
    except InvalidInput as error:
        raise codec.relocate(error, field) from None


Lanes: TypeAlias = Annotated[tuple[LaneId, ...], msgspec.Meta(max_length=limits.MAX_LANES), Rule(_lanes)]


def task_names(field: str, value: Any) -> tuple[str, ...]:
    """The names without repeats, sorted."""
    if not isinstance(value, tuple | list | set | frozenset):
        raise InvalidInput(field, value, "must be a collection of task names")
    if len(value) > limits.MAX_TASK_NAMES:
        raise InvalidInput(field, len(value), f"must hold at most {limits.MAX_TASK_NAMES} names")
    return tuple(sorted({limits.label(field, each, 1, limits.EXECUTION_KIND_MAX_BYTES) for each in value}))


TaskNames: TypeAlias = Annotated[tuple[str, ...], msgspec.Meta(max_length=limits.MAX_TASK_NAMES), Rule(task_names)]
WorkerTtlMs: TypeAlias = Annotated[int, msgspec.Meta(ge=1_000, le=limits.LEASE_TTL_MAX_MS)]
Label: TypeAlias = Annotated[str, Rule(lambda field, value: limits.label(field, value, 0, limits.NAME_MAX_BYTES))]
SlotCount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_U32)]


class TaskEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A task that a worker has, with the options that hold when it is submitted by name. Durations are seconds."""

    name: str
    options: dict[str, Any] = msgspec.field(default_factory=dict)


def _task_entries(field: str, value: Any) -> tuple[TaskEntry, ...]:
    if not isinstance(value, tuple | list) or not all(isinstance(each, TaskEntry) for each in value):
        raise InvalidInput(field, type(value).__name__, "must be a list of TaskEntry")
    task_names(field, [each.name for each in value])
    for each in value:
        if len(codec.to_json(each.options)) > limits.TASK_OPTIONS_MAX_BYTES:
            problem = f"the options must have at most {limits.TASK_OPTIONS_MAX_BYTES} bytes as JSON"
            raise InvalidInput(field, each.name, problem)
    return tuple(value)


TaskEntries: TypeAlias = Annotated[
    tuple[TaskEntry, ...], msgspec.Meta(max_length=limits.MAX_TASK_NAMES), Rule(_task_entries)
]


class RegisterWorkerArgs(Checked, frozen=True, kw_only=True):
    """Register a worker process; it is alive for `ttl_ms` after each heartbeat."""

    namespace: Namespace
    worker_id: WorkerId
    worker_instance_id: WorkerInstanceId
    lanes: Lanes
    ttl_ms: WorkerTtlMs
    capabilities: Capabilities = ()
    version: Label = ""  # of the user's code
    host: Label = ""
    slots: SlotCount = 0
    tasks: TaskEntries = ()  # empty: any


class WorkerRegistered(Outcome, frozen=True, kw_only=True, tag="registered"):
    """It was unknown, or was marked dead."""


class WorkerRefreshed(Outcome, frozen=True, kw_only=True, tag="refreshed"):
    """It was registered before; its lanes and capabilities were replaced."""


RegisterWorkerResult: TypeAlias = WorkerRegistered | WorkerRefreshed


class HeartbeatWorkerArgs(Checked, frozen=True, kw_only=True):
    """A heartbeat."""

    namespace: Namespace
    worker_instance_id: WorkerInstanceId


class HeartbeatAccepted(Outcome, frozen=True, kw_only=True, tag="accepted"):
    next_expiry_ms: TimestampMs


class WorkerNotRegistered(Outcome, frozen=True, kw_only=True, tag="not_registered"):
    """It must register again: it was marked dead, or its heartbeat timed out."""


HeartbeatWorkerResult: TypeAlias = HeartbeatAccepted | WorkerNotRegistered


class MarkWorkerDeadArgs(Checked, frozen=True, kw_only=True):
    """Remove a worker from the registry: called by the worker when it stops, or by an operator.

    The reason is for observers of the call; the store keeps no record of a removed worker.
    """

    namespace: Namespace
    worker_instance_id: WorkerInstanceId
    reason: Reason = ""


class WorkerMarkedDead(Outcome, frozen=True, kw_only=True, tag="marked"):
    """It was alive until now."""


MarkWorkerDeadResult: TypeAlias = WorkerMarkedDead | WorkerNotRegistered


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A live worker."""

    namespace: Namespace
    worker_id: WorkerId
    worker_instance_id: WorkerInstanceId
    lanes: tuple[LaneId, ...]
    capabilities: tuple[str, ...]
    version: str
    host: str
    slots: int
    registered_at: TimestampMs
    last_heartbeat_at: TimestampMs
    expires_at: TimestampMs
    tasks: tuple[str, ...] = ()  # empty: it names none, and may take any


class ListWorkersArgs(Checked, frozen=True, kw_only=True):
    """Live workers of one namespace, or of all of them."""

    namespace: Namespace | None = None
    cursor: Cursor | None = None
    limit: ScanLimit = 100


class ListWorkersPage(msgspec.Struct, frozen=True, kw_only=True):
    workers: tuple[WorkerInfo, ...] = ()
    next_cursor: str | None = None


class ListTasksArgs(Checked, frozen=True, kw_only=True):
    """Tasks that workers of a namespace have registered: one by its name, or all."""

    namespace: Namespace | None = None  # None: "default"
    name: ExecutionKind | None = None
    cursor: Cursor | None = None
    limit: ScanLimit = 100


class RegisteredTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task as the latest worker registered it, which may have ended since."""

    name: str
    options: dict[str, Any]
    registered_at: TimestampMs
    version: str = ""


class ListTasksPage(msgspec.Struct, frozen=True, kw_only=True):
    tasks: tuple[RegisteredTask, ...] = ()
    next_cursor: str | None = None
