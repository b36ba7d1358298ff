"""FlowFabric: a durable execution engine on Valkey Functions."""

from flowfabric.backends import open_backend
from flowfabric.backends.ports import EngineBackend
from flowfabric.client import (
    Call,
    ExecutionCancelled,
    ExecutionEnded,
    ExecutionExpired,
    ExecutionFailed,
    ExecutionSkipped,
    Fabric,
    Handle,
    Progress,
    SyncFabric,
    SyncHandle,
    Task,
    TaskOptions,
    named,
    task,
)
from flowfabric.config import Settings
from flowfabric.core.policy import RetryPolicy
from flowfabric.engine import Engine, EngineSettings
from flowfabric.errors import FlowFabricError
from flowfabric.worker import Cancel, ClaimedTask, Claims, Context, Fail, Retry, Snooze, Worker

__version__ = "0.1.0"

__all__ = [
    "Call",
    "Cancel",
    "ClaimedTask",
    "Claims",
    "Context",
    "Engine",
    "EngineBackend",
    "EngineSettings",
    "ExecutionCancelled",
    "ExecutionEnded",
    "ExecutionExpired",
    "ExecutionFailed",
    "ExecutionSkipped",
    "Fabric",
    "Fail",
    "FlowFabricError",
    "Handle",
    "Progress",
    "Retry",
    "RetryPolicy",
    "Settings",
    "Snooze",
    "SyncFabric",
    "SyncHandle",
    "Task",
    "TaskOptions",
    "Worker",
    "__version__",
    "named",
    "open_backend",
    "task",
]
