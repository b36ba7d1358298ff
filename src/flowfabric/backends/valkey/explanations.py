"""From what the store tells of an execution's wait to the Explanation."""

from __future__ import annotations

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId, WorkerInstanceId
from flowfabric.core.states import LaneState, LifecyclePhase, StateVector

Facts = dict[str, str]


def explanation(execution_id: ExecutionId, record: Facts, facts: Facts) -> c.Explanation:
    """One moment's facts; what is not known is None."""
    state = StateVector.from_record(record)
    is_active = state.lifecycle_phase is LifecyclePhase.ACTIVE
    return c.Explanation(
        execution_id=execution_id,
        lane_id=LaneId(record["lane_id"]),
        state_vector=state,
        public_state=state.public_state,
        now_ms=int(facts["now_ms"]),
        created_at=int(record["created_at"]),
        blocking_detail=record.get("blocking_detail"),
        required_capabilities=tuple(filter(None, record.get("required_capabilities", "").split(","))),
        delay_until=_number(record, "delay_until"),
        failure_reason=record.get("failure_reason"),
        open_dependencies=_number(facts, "open_dependencies") or 0,
        flow_is_cancelled="flow_obstacle" in facts,
        worker_instance_id=_worker(record, "current_worker_instance_id") if is_active else None,
        lease_expires_at=_number(record, "lease_expires_at"),
        granted_to=_worker(facts, "granted_to"),
        grant_expires_at=_number(facts, "grant_expires_at"),
        lane_state=LaneState(facts["lane_state"]),
        lane_running=_number(facts, "lane_running") or 0,
        lane_limit=_number(facts, "lane_share"),
        lane_max_concurrency=_number(facts, "lane_max_concurrency"),
        concurrency_key=record.get("concurrency_key"),
        key_limit=_number(facts, "key_limit"),
        key_running=_number(facts, "key_running") or 0,
        key_ahead=_number(facts, "key_ahead"),
        ahead=_number(facts, "ahead"),
        first_in_queue=ExecutionId(facts["first_in_queue"]) if "first_in_queue" in facts else None,
    )


def _number(found: Facts, name: str) -> int | None:
    return int(found[name]) if name in found else None


def _worker(found: Facts, name: str) -> WorkerInstanceId | None:
    return WorkerInstanceId(found[name]) if name in found else None
