"""Waiting work whose task no live worker has: which it is, and what to say about it."""

from __future__ import annotations

from collections.abc import Sequence

from flowfabric.core import contracts as c
from flowfabric.core.rules.tasks import has_task
from flowfabric.core.states import PublicState

_MOST_NAMES = 20


def known_in(lane: str, workers: Sequence[c.WorkerInfo]) -> list[str]:
    """The tasks of the live workers of a lane, sorted."""
    return sorted({name for worker in workers if lane in worker.lanes for name in worker.tasks})


def is_unknown(kind: str, lane: str, workers: Sequence[c.WorkerInfo]) -> bool:
    """Whether workers serve the lane, and none of them has the task."""
    of_lane = [worker for worker in workers if lane in worker.lanes]
    return bool(of_lane) and not any(has_task(worker.tasks, kind) for worker in of_lane)


def waits_for_task(execution: c.ExecutionSummary, workers: Sequence[c.WorkerInfo]) -> bool:
    """Whether a listed execution waits, and no live worker of its lane has its task."""
    is_waiting = execution.public_state is PublicState.WAITING
    return is_waiting and is_unknown(execution.execution_kind, execution.lane_id, workers)


def sentence(kind: str, lane: str, workers: Sequence[c.WorkerInfo]) -> str:
    """What is missing, and what there is."""
    names = known_in(lane, workers)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"no live worker has the task `{kind}`; workers of lane {lane} know: {', '.join(names[:_MOST_NAMES])}{more}"
