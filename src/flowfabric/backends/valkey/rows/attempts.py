"""Attempts, as their records say them: the current one is in the record of its execution, others have their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flowfabric.backends.valkey.library.records import optional_number
from flowfabric.core import contracts as c
from flowfabric.core.contracts.failures import detail_from_json
from flowfabric.core.ids import AttemptId, WorkerInstanceId
from flowfabric.core.rules.execution.losses import failure_text
from flowfabric.core.states import AttemptRecordState, AttemptType, LifecyclePhase, StateVector, TerminalOutcome

_ENDED: Final = {
    TerminalOutcome.SUCCESS: AttemptRecordState.ENDED_SUCCESS,
    TerminalOutcome.FAILED: AttemptRecordState.ENDED_FAILURE,
    TerminalOutcome.EXPIRED: AttemptRecordState.ENDED_FAILURE,
}


def attempt_index(record: Mapping[str, str]) -> int | None:
    """The index of the current attempt, or None if the execution was never claimed."""
    return optional_number(record, "current_attempt_index") or 0 if "current_attempt_id" in record else None


def failure_reason(record: Mapping[str, str]) -> str | None:
    """The failure reason in the record of an execution, for people."""
    lost = optional_number(record, "lease_reclaim_count") or 0
    worker = record.get("current_worker_instance_id")
    return failure_text(record.get("failure_reason"), record.get("failure_category"), worker, lost)


def current_attempt(record: Mapping[str, str], detail: str) -> c.AttemptRecord:
    """The current attempt, which is stored in the execution's record."""
    state = StateVector.from_record(record)
    return c.AttemptRecord(
        attempt_index=attempt_index(record) or 0,
        attempt_id=AttemptId(record["current_attempt_id"]),
        attempt_type=AttemptType(record.get("current_attempt_type", "initial")),
        state=_attempt_record_state(state),
        started_at=optional_number(record, "attempt_started_at") or optional_number(record, "started_at"),
        ended_at=optional_number(record, "completed_at"),
        failure_reason=failure_reason(record),
        failure_category=record.get("failure_category"),
        worker_instance_id=WorkerInstanceId(record["current_worker_instance_id"]),
        lease_epoch=optional_number(record, "current_lease_epoch"),
        failure_detail=detail_from_json(detail),
    )


def _attempt_record_state(state: StateVector) -> AttemptRecordState:
    if state.lifecycle_phase is LifecyclePhase.TERMINAL:
        return _ENDED.get(state.terminal_outcome, AttemptRecordState.ENDED_CANCELLED)
    if state.lifecycle_phase is LifecyclePhase.ACTIVE:
        return AttemptRecordState.STARTED
    return AttemptRecordState.SUSPENDED


def past_attempt(index: int, record: Mapping[str, str], detail: str) -> c.AttemptRecord:
    """An earlier attempt, which has its own record."""
    category, worker = record.get("failure_category"), record["worker_instance_id"]
    return c.AttemptRecord(
        attempt_index=index,
        attempt_id=AttemptId(record["attempt_id"]),
        attempt_type=AttemptType(record["attempt_type"]),
        state=AttemptRecordState(record["attempt_state"]),
        started_at=optional_number(record, "started_at"),
        ended_at=optional_number(record, "ended_at"),
        failure_reason=failure_text(record.get("failure_reason"), category, worker),
        failure_category=category,
        worker_instance_id=WorkerInstanceId(worker),
        lease_epoch=optional_number(record, "lease_epoch"),
        failure_detail=detail_from_json(detail),
    )
