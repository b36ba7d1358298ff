"""Running tasks: `Worker`, what a handler gets and what it can raise, and the lease of one execution by hand."""

from flowfabric.client.tasks import Task, task
from flowfabric.worker.claimed import ClaimedTask, Claims
from flowfabric.worker.context import Context, Flag
from flowfabric.worker.handlers import CallNext, Middleware
from flowfabric.worker.outcomes import Cancel, Fail, Interrupted, Retry, Snooze
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
    "Interrupted",
    "Middleware",
    "Retry",
    "Snooze",
    "Task",
    "Worker",
    "WorkerStats",
    "task",
]
