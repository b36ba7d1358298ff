"""The Python API: tasks, `Fabric` to submit them, handles for their results, `SyncFabric` for scripts."""

from flowfabric.client.fabric import Fabric
from flowfabric.client.failures import (
    ExecutionCancelled,
    ExecutionEnded,
    ExecutionExpired,
    ExecutionFailed,
    ExecutionSkipped,
    FlowEnded,
)
from flowfabric.client.flows.flow import Flow
from flowfabric.client.flows.handle import FlowHandle
from flowfabric.client.flows.nodes import Node
from flowfabric.client.flows.view import FlowView
from flowfabric.client.handle import Handle
from flowfabric.client.streaming import StreamItem
from flowfabric.client.sync.fabric import SyncFabric
from flowfabric.client.sync.flows import SyncFlow, SyncFlowHandle
from flowfabric.client.sync.handle import SyncHandle
from flowfabric.client.tasks.task import Call, Task, TaskContext, TaskOptions, named, task

__all__ = [
    "Call",
    "ExecutionCancelled",
    "ExecutionEnded",
    "ExecutionExpired",
    "ExecutionFailed",
    "ExecutionSkipped",
    "Fabric",
    "Flow",
    "FlowEnded",
    "FlowHandle",
    "FlowView",
    "Handle",
    "Node",
    "StreamItem",
    "SyncFabric",
    "SyncFlow",
    "SyncFlowHandle",
    "SyncHandle",
    "Task",
    "TaskContext",
    "TaskOptions",
    "named",
    "task",
]
