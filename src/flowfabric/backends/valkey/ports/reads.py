"""ReadPort on Valkey: turn record fields into read models."""

from __future__ import annotations

from flowfabric.backends.valkey.library.calls import FunctionCaller, flat_to_dict
from flowfabric.backends.valkey.library.layout import FOREIGN_FIELD
from flowfabric.backends.valkey.library.records import number, optional_number, read_directly, reading
from flowfabric.backends.valkey.library.tenancy import ValkeyTenancy
from flowfabric.backends.valkey.rows.attempts import attempt_index, current_attempt, failure_reason, past_attempt
from flowfabric.backends.valkey.wire.client import Client, Reply
from flowfabric.core import contracts as c
from flowfabric.core.ids import (
    AttemptId,
    ExecutionId,
    FlowId,
    LaneId,
    LeaseId,
    Namespace,
    WaitpointId,
    WorkerInstanceId,
)
from flowfabric.core.states import (
    AttemptState,
    BlockingReason,
    OwnershipState,
    PublicState,
    StateVector,
)
from flowfabric.errors import ExecutionNotFound, InvalidInput, Unavailable

Record = dict[str, str]

_DEFAULT = "default"  # the default namespace, which records do not store

_HOLDS_ATTEMPT = {
    AttemptState.RUNNING_ATTEMPT,
    AttemptState.ATTEMPT_INTERRUPTED,
    AttemptState.ATTEMPT_TERMINAL,
}


class ValkeyReads(ValkeyTenancy):
    """Read executions."""

    _caller: FunctionCaller
    _client: Client

    async def describe_execution(self, execution_id: ExecutionId) -> c.ExecutionSnapshot | None:
        try:
            fields = await self._caller.call_execution("describe_execution", execution_id)
        except ExecutionNotFound:
            return None
        with reading("execution", execution_id):
            record, attempt = _own(fields.mapping(0)), fields.mapping(1)
            return _snapshot(execution_id, await self.shown(record), attempt)

    async def get_execution(self, execution_id: ExecutionId) -> c.ExecutionInfo | None:
        key = self._caller.core(execution_id)
        reply = await read_directly(self._client, "HGETALL", key)
        with reading("execution", execution_id):
            record = flat_to_dict(reply)
            if not record or not self._caller.sees(_namespace(record)):
                return None
            return _info(execution_id, await self.shown(_own(record)))

    async def get_execution_state(self, execution_id: ExecutionId) -> PublicState | None:
        key = self._caller.core(execution_id)
        reply = await read_directly(self._client, "HMGET", key, "public_state", "namespace")
        state, namespace = reply if isinstance(reply, list) else (None, None)
        if not isinstance(state, bytes) or not self._caller.sees(_named(namespace)):
            return None
        with reading("execution", execution_id):
            return PublicState(state.decode())

    async def get_execution_result(self, execution_id: ExecutionId) -> c.ExecutionResult | None:
        fields = await self._caller.call_execution("get_execution_result", execution_id)
        with reading("result of execution", execution_id):
            if fields.text(1) == "0":
                return None
            return c.ExecutionResult(payload=fields.raw(3), encoding=fields.text(2) or None)

    async def read_execution_context(self, execution_id: ExecutionId) -> c.ExecutionContext:
        fields = await self._caller.call_execution("read_execution_context", execution_id)
        with reading("execution", execution_id):
            return c.ExecutionContext(
                execution_kind=fields.text(0),
                payload_encoding=fields.text(1) or None,
                input_payload=fields.raw(2),
                tags=fields.mapping(3),
            )

    async def list_attempts(
        self, execution_id: ExecutionId, *, from_index: int = 0, limit: int = 100
    ) -> list[c.AttemptRecord]:
        if from_index < 0 or not 1 <= limit <= 1000:
            raise InvalidInput("limit", limit, "expected 1 to 1000 attempts from an index of at least 0")
        fields = await self._caller.call_execution("list_attempts", execution_id, from_index=from_index, limit=limit)
        with reading("attempts of execution", execution_id):
            core = fields.mapping(1)
            return [
                current_attempt(core, detail) if not put_away else past_attempt(index, put_away, detail)
                for index, (put_away, detail) in enumerate(
                    zip(fields.mappings(2), fields.texts(3), strict=True), from_index
                )
            ]


def _own(record: Record) -> Record:
    """Refuse records of the Rust original, which have a field that ours never have and another layout."""
    if FOREIGN_FIELD in record:
        problem = f"{record.get('execution_id')}: the record was written by the Rust original and cannot be read"
        raise Unavailable(problem, code="layout_mismatch")
    return record


def _namespace(record: Record) -> Namespace:
    return Namespace(record.get("namespace") or _DEFAULT)


def _named(namespace: Reply) -> str:
    return namespace.decode() if isinstance(namespace, bytes) and namespace else _DEFAULT


def _flow(record: Record) -> FlowId | None:
    return FlowId(record["flow_id"]) if "flow_id" in record else None


def _snapshot(execution_id: ExecutionId, record: Record, tags: dict[str, str]) -> c.ExecutionSnapshot:
    state = StateVector.from_record(record)
    reason, index = state.blocking_reason, attempt_index(record)
    waitpoint = record.get("current_waitpoint_id")
    return c.ExecutionSnapshot(
        execution_id=execution_id,
        flow_id=_flow(record),
        lane_id=LaneId(record["lane_id"]),
        namespace=_namespace(record),
        public_state=state.public_state,
        blocking_reason=reason if reason is not BlockingReason.NONE else None,
        blocking_detail=record.get("blocking_detail"),
        current_attempt=_attempt_summary(state, record),
        current_lease=_lease_summary(state, record),
        current_waitpoint=WaitpointId(waitpoint) if waitpoint else None,
        created_at=number(record, "created_at"),
        last_mutation_at=_last_mutation_at(record),
        total_attempt_count=0 if index is None else index + 1,
        delay_until=optional_number(record, "delay_until") if state.public_state is PublicState.DELAYED else None,
        progress_pct=optional_number(record, "progress_pct"),
        progress_message=record.get("progress_message"),
        failure_reason=failure_reason(record),
        failure_category=record.get("failure_category"),
        concurrency_key=record.get("concurrency_key"),
        tags=tags,
    )


def _attempt_summary(state: StateVector, record: Record) -> c.AttemptSummary | None:
    if state.attempt_state not in _HOLDS_ATTEMPT or "current_attempt_id" not in record:
        return None
    return c.AttemptSummary(
        attempt_id=AttemptId(record["current_attempt_id"]), attempt_index=attempt_index(record) or 0
    )


def _lease_summary(state: StateVector, record: Record) -> c.LeaseSummary | None:
    if state.ownership_state is not OwnershipState.LEASED:
        return None
    return c.LeaseSummary(
        lease_id=LeaseId(record["current_lease_id"]),
        lease_epoch=number(record, "current_lease_epoch"),
        attempt_index=attempt_index(record) or 0,
        worker_instance_id=WorkerInstanceId(record["current_worker_instance_id"]),
        expires_at=number(record, "lease_expires_at"),
        last_heartbeat_at=_lease_seen_at(record),
    )


# Times of changes; the latest is the time of the last change.
_TIMES = (
    "created_at", "started_at", "attempt_started_at", "lease_acquired_at", "lease_last_renewed_at", "completed_at",
    "last_mutation_at",
)  # fmt: skip


def _last_mutation_at(record: Record) -> int:
    return max(number(record, name) for name in _TIMES if name in record)


def _lease_seen_at(record: Record) -> int:
    """The last renewal of the lease, or its acquisition."""
    for name in ("lease_last_renewed_at", "lease_acquired_at", "attempt_started_at", "started_at"):
        if name in record:
            return number(record, name)
    return number(record, "created_at")


def _info(execution_id: ExecutionId, record: Record) -> c.ExecutionInfo:
    state = StateVector.from_record(record)
    return c.ExecutionInfo(
        execution_id=execution_id,
        namespace=_namespace(record),
        lane_id=LaneId(record["lane_id"]),
        priority=optional_number(record, "priority") or 0,
        execution_kind=record.get("execution_kind", ""),
        state_vector=state,
        public_state=state.public_state,
        created_at=number(record, "created_at"),
        started_at=optional_number(record, "started_at"),
        completed_at=optional_number(record, "completed_at"),
        current_attempt_index=attempt_index(record),
        flow_id=_flow(record),
        blocking_detail=record.get("blocking_detail", ""),
        concurrency_key=record.get("concurrency_key"),
    )
