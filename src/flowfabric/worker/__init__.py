"""Run tasks: `Worker`, the context and the outcomes of handlers, and `Claims` to drive a lease by hand."""

from flowfabric.client.tasks.task import Task, task
from flowfabric.worker.attempts.outcomes import (
    Cancel,
    Fail,
    Interrupted,
    Retry,
    Snooze,
    StepFailed,
    Suspended,
    TaskExited,
)
from flowfabric.worker.context.context import Context, Flag
from flowfabric.worker.context.current import current_context
from flowfabric.worker.context.spending import Held, Usage
from flowfabric.worker.durable.signals import ResumedWithoutSignal, Signal, SignalTimeout, Waitpoint
from flowfabric.worker.executors.dispatch import CallNext, Middleware
from flowfabric.worker.log_settings import Logs
from flowfabric.worker.manual.claims import Claims
from flowfabric.worker.manual.task import ClaimedTask
from flowfabric.worker.stats import WorkerStats
from flowfabric.worker.worker import Worker

__all__ = [
    "CallNext",
    "Cancel",
    "ClaimedTask",
    "Claims",
    "Context",
    "Fail",
    "Flag",
    "Held",
    "Interrupted",
    "Logs",
    "Middleware",
    "ResumedWithoutSignal",
    "Retry",
    "Signal",
    "SignalTimeout",
    "Snooze",
    "StepFailed",
    "Suspended",
    "Task",
    "TaskExited",
    "Usage",
    "Waitpoint",
    "Worker",
    "WorkerStats",
    "current_context",
    "task",
]
