"""What Python people use: tasks, `Fabric` to submit them, handles to get their results, `SyncFabric` for scripts."""

from flowfabric.client.fabric import Fabric
from flowfabric.client.failures import (
    ExecutionCancelled,
    ExecutionEnded,
    ExecutionExpired,
    ExecutionFailed,
    ExecutionSkipped,
)
from flowfabric.client.handle import Handle, Progress
from flowfabric.client.streaming import StreamItem
from flowfabric.client.sync import SyncFabric, SyncHandle
from flowfabric.client.tasks import Call, Task, TaskContext, TaskOptions, named, task

__all__ = [
    "Call",
    "ExecutionCancelled",
    "ExecutionEnded",
    "ExecutionExpired",
    "ExecutionFailed",
    "ExecutionSkipped",
    "Fabric",
    "Handle",
    "Progress",
    "StreamItem",
    "SyncFabric",
    "SyncHandle",
    "Task",
    "TaskContext",
    "TaskOptions",
    "named",
    "task",
]
