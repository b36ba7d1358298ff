"""What Python people use: tasks, `Fabric` to submit them, handles to get their results, `SyncFabric` for scripts."""

from flowfabric.client.fabric import Fabric
from flowfabric.client.failures import (
    ExecutionCancelled,
    ExecutionEnded,
    ExecutionExpired,
    ExecutionFailed,
    ExecutionSkipped,
    FlowEnded,
)
from flowfabric.client.flow_handle import FlowHandle
from flowfabric.client.flow_view import FlowView
from flowfabric.client.flows import Flow
from flowfabric.client.handle import Handle, Progress
from flowfabric.client.nodes import Node
from flowfabric.client.streaming import StreamItem
from flowfabric.client.sync import SyncFabric
from flowfabric.client.sync_flows import SyncFlow, SyncFlowHandle
from flowfabric.client.sync_handle import SyncHandle
from flowfabric.client.tasks import Call, Task, TaskContext, TaskOptions, named, task

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
    "Progress",
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
