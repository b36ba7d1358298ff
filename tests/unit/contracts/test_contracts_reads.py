from __future__ import annotations

from flowfabric.core import codec
from flowfabric.core.contracts import (
    AttemptRecord,
    AttemptSummary,
    ExecutionContext,
    ExecutionInfo,
    ExecutionResult,
    ExecutionSnapshot,
    LeaseSummary,
)
from flowfabric.core.ids import AttemptId, ExecutionId, FlowId, LaneId, LeaseId, Namespace, WorkerInstanceId
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.states import (
    AttemptRecordState,
    AttemptType,
    EligibilityState,
    LifecyclePhase,
    PublicState,
    StateVector,
)

FLOW = FlowId.new()
EXECUTION = ExecutionId.for_flow(FLOW, PartitionConfig())


def test_a_full_snapshot_survives_json() -> None:
    attempt = AttemptSummary(attempt_id=AttemptId.new(), attempt_index=2)
    lease = LeaseSummary(
        lease_id=LeaseId.new(),
        lease_epoch=3,
        attempt_index=2,
        worker_instance_id=WorkerInstanceId("w-1"),
        expires_at=1_700_000_030_000,
    )
    snapshot = ExecutionSnapshot(
        execution_id=EXECUTION,
        lane_id=LaneId("default"),
        namespace=Namespace("test"),
        public_state=PublicState.ACTIVE,
        created_at=1_700_000_000_000,
        last_mutation_at=1_700_000_000_001,
        total_attempt_count=3,
        flow_id=FLOW,
        current_attempt=attempt,
        current_lease=lease,
        tags={"team.a": "1"},
    )
    back = codec.from_json(ExecutionSnapshot, codec.to_json(snapshot))
    assert back == snapshot
    assert type(back.flow_id) is FlowId


def test_a_fresh_execution_has_no_attempt_and_no_lease() -> None:
    snapshot = ExecutionSnapshot(
        execution_id=EXECUTION,
        lane_id=LaneId("default"),
        namespace=Namespace("test"),
        public_state=PublicState.WAITING,
        created_at=1,
        last_mutation_at=1,
        total_attempt_count=0,
    )
    assert (snapshot.current_attempt, snapshot.current_lease, snapshot.tags) == (None, None, {})


def test_snapshots_do_not_share_their_tags() -> None:
    one, two = (ExecutionContext(input_payload=b"", execution_kind="k") for _ in range(2))
    assert one.tags is not two.tags


def test_info_carries_the_whole_state() -> None:
    state = StateVector(lifecycle_phase=LifecyclePhase.RUNNABLE, eligibility_state=EligibilityState.BLOCKED_BY_QUOTA)
    info = ExecutionInfo(
        execution_id=EXECUTION,
        namespace=Namespace("test"),
        lane_id=LaneId("default"),
        priority=5,
        execution_kind="llm_call",
        state_vector=state,
        public_state=state.public_state,
        created_at=1,
    )
    assert codec.from_json(ExecutionInfo, codec.to_json(info)) == info
    assert info.public_state is PublicState.RATE_LIMITED


def test_payloads_come_back_byte_for_byte() -> None:
    every_byte = bytes(range(256))
    context = ExecutionContext(input_payload=every_byte, execution_kind="k", payload_encoding="raw")
    result = ExecutionResult(payload=every_byte)
    assert codec.from_json(ExecutionContext, codec.to_json(context)).input_payload == every_byte
    assert codec.from_json(ExecutionResult, codec.to_json(result)).payload == every_byte


def test_an_attempt_says_why_it_started_and_how_it_ended() -> None:
    record = AttemptRecord(
        attempt_index=1,
        attempt_id=AttemptId.new(),
        attempt_type=AttemptType.RETRY,
        state=AttemptRecordState.ENDED_FAILURE,
        started_at=1,
        ended_at=2,
        failure_reason="boom",
        failure_category="transient",
        worker_instance_id=WorkerInstanceId("w-1"),
        lease_epoch=2,
    )
    assert codec.from_json(AttemptRecord, codec.to_json(record)) == record
