"""The end of a suspension: it closes together with its waitpoints (D1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flowfabric.core.contracts.waits.waitpoints import WaitpointState
from flowfabric.core.rules.execution.record import ExecutionRecord, WaitpointRecord


def closed(record: ExecutionRecord, reason: str, signals: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields that close the open suspension; empty without one. `signals`: those that ended it."""
    open_one = record.suspension
    if open_one is None or not open_one.is_open:
        return {}
    waitpoints = [_close(each) if each.waitpoint_id in open_one.keys else each for each in record.waitpoints]
    return {
        "suspension": replace(open_one, close_reason=reason, resume_signals=signals),
        "waitpoints": tuple(waitpoints),
    }


def close_waitpoints(record: ExecutionRecord, *gone: WaitpointRecord, is_out_of_time: bool = False) -> dict[str, Any]:
    """The fields that close these waitpoints."""
    waitpoints = (_close(each, is_out_of_time) if each in gone else each for each in record.waitpoints)
    return {"waitpoints": tuple(waitpoints)}


def _close(waitpoint: WaitpointRecord, is_out_of_time: bool = False) -> WaitpointRecord:
    return replace(waitpoint, state=WaitpointState.CLOSED, is_out_of_time=is_out_of_time)
