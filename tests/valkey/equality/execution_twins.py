"""One execution twice: in the store, where Lua decides, and as a record, which `core/rules` decides about."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from flowfabric.core import limits
from flowfabric.core.conditions import Single
from flowfabric.core.contracts.waits.suspension import SuspensionReasonCode
from flowfabric.core.ids import AttemptId, ExecutionId, LaneId, LeaseId, SuspensionId, WaitpointId, WaitpointKey
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.policy import (
    ExecutionPolicy,
    ExponentialBackoff,
    FixedBackoff,
    RetryPolicy,
    TimeoutBehavior,
    policy_to_json,
)
from flowfabric.core.rules.execution.record import ExecutionRecord, SuspensionRecord
from flowfabric.core.rules.execution.transitions import SITUATIONS, Situation
from flowfabric.core.rules.outcome import Changes
from flowfabric.core.states import EligibilityState, LifecyclePhase, StateVector
from tests.valkey.equality.vm import NOW, RuleVm

ID = ExecutionId.deterministic_for_lane(LaneId("default"), PartitionConfig(), "11111111-1111-4111-8111-111111111111")
TAG = ID[: ID.index("}") + 1]
PARTITION = f"ff:part:{TAG}:events"
CORE = f"ff:exec:{TAG}:{ID}:core"
LEASE, ATTEMPT, SUSPENSION, WAITPOINT = LeaseId.new(), AttemptId.new(), SuspensionId.new(), WaitpointId.new()
KEY = WaitpointKey("wpk:approval")
TIMES = st.sampled_from([NOW - 1, NOW, NOW + 1])

GLUE = """
function glue.put(core, fields, vector, at, now)
  local x, set = lib.record.at(core), {}
  for name, value in pairs(fields) do set[#set + 1], set[#set + 2] = name, value end
  lib.update.change(x, now, vector, set)
  lib.index.enter(x, now)
  lib.index.register(x)
  if vector.ownership_state == 'lease_revoked' then lib.index.revoke(x, now) end
  if at.deadline then lib.index.set_deadline(x, at.deadline) end
  if at.timeout then lib.index.set_attempt_timeout(x, at.timeout) end
  if at.policy then redis.call('SET', x.base .. ':policy', at.policy) end
  for name, value in pairs(at.suspension or {}) do redis.call('HSET', lib.suspension.key(x), name, value) end
end
function glue.get(core)
  local x = lib.record.load(core)
  local function score(name) return redis.call('ZSCORE', lib.index_key.partition(x, name), x.id) or nil end
  local s = lib.suspension.load(x)
  return {x = x, deadline = score('execution_deadline'), timeout = score('attempt_timeout'), suspension = s,
    ending = s and lib.suspension.ending(s), signals = redis.call('ZCARD', lib.signal.list_key(x))}
end
function glue.delay_of(policy)
  local kept = lib.resume_policy.read(policy)
  return lib.resume_policy.delay(kept ~= '' and kept or nil)
end
function glue.reached_cap(core, default)
  return lib.reclaim.reached_cap(lib.record.load(core), default or lib.reclaim.DEFAULT_CAP) or false
end
"""

_BACKOFFS = st.one_of(
    st.builds(FixedBackoff, delay_ms=st.integers(0, 5_000)),
    st.builds(ExponentialBackoff, initial_delay_ms=st.integers(0, 1_000), max_delay_ms=st.integers(1_000, 9_000),
              multiplier=st.sampled_from([1.0, 1.5, 2.0]), jitter=st.booleans()),
)  # fmt: skip
POLICIES = st.builds(
    ExecutionPolicy,
    max_reclaim_count=st.none() | st.integers(0, 2),
    retry_policy=st.none()
    | st.builds(RetryPolicy, max_retries=st.integers(0, 3), backoff=_BACKOFFS,
                retryable_categories=st.sampled_from([(), ("timeout",), ("other",)])),
)  # fmt: skip


@st.composite
def suspensions(draw: st.DrawFn, *, is_escalated: bool = False) -> SuspensionRecord:
    """An open one; an escalated one has no timeout left."""
    return SuspensionRecord(
        suspension_id=SUSPENSION,
        condition=Single(waitpoint_key=KEY),
        keys={WAITPOINT: KEY},
        timeout_at=None if is_escalated else draw(st.none() | TIMES),
        timeout_behavior=draw(st.sampled_from(TimeoutBehavior)),
    )


def _ends_of_lease(situation: Situation) -> st.SearchStrategy[int]:
    return TIMES.filter(lambda at: at <= NOW) if situation is Situation.LEASE_EXPIRED else TIMES


@st.composite
def records(draw: st.DrawFn, situations: tuple[Situation, ...] = tuple(Situation)) -> ExecutionRecord:
    """Any situation, with the times that an execution in it may have."""
    situation = draw(st.sampled_from(situations))
    state = SITUATIONS[situation]
    phase, is_delayed = state.lifecycle_phase, state.eligibility_state is EligibilityState.NOT_ELIGIBLE_UNTIL_TIME
    is_active, is_over = phase is LifecyclePhase.ACTIVE, phase is LifecyclePhase.TERMINAL
    is_suspended = phase is LifecyclePhase.SUSPENDED
    attempt_timeout_at = draw(st.none() | TIMES) if is_active else None
    return ExecutionRecord(
        execution_id=ID, state=state, created_at=NOW - 100, completed_at=NOW - 1 if is_over else None,
        policy=draw(st.none() | POLICIES), attempt_id=ATTEMPT, attempt_index=0, lease_epoch=1,
        lease_id=LEASE if is_active else None, lease_expires_at=draw(_ends_of_lease(situation)) if is_active else None,
        delay_until=draw(TIMES) if is_delayed else None,
        deadline_at=None if is_over else draw(st.none() | TIMES),
        attempt_timeout_at=attempt_timeout_at,
        attempt_timeout_ms=draw(st.integers(1, limits.MAX_DURATION_MS)) if attempt_timeout_at else None,
        retry_count=draw(st.integers(0, 3)), reclaim_count=draw(st.sampled_from([0, 1, 2, 99, 100])),
        suspension=draw(suspensions(is_escalated=situation is Situation.ESCALATED)) if is_suspended else None,
    )  # fmt: skip


def put(vm: RuleVm, record: ExecutionRecord, **more: str) -> None:
    """Write the record into an empty store, with the index entries that follow from it."""
    vm.client.flushdb()
    vm.set_clock(NOW)
    fields = {
        "lane_id": "default", "created_at": record.created_at, "completed_at": record.completed_at,
        "started_at": record.created_at, "current_worker_instance_id": "w",
        "current_lease_id": record.lease_id, "current_lease_epoch": record.lease_epoch,
        "lease_expires_at": record.lease_expires_at, "current_attempt_id": record.attempt_id,
        "delay_until": record.delay_until, "retry_count": record.retry_count or None,
        "lease_reclaim_count": record.reclaim_count or None,
        "attempt_timeout_ms": record.attempt_timeout_ms,
        "suspension_timeout_at": record.suspension.timeout_at if record.suspension else None,
        **more,
    }  # fmt: skip
    at = {
        "deadline": record.deadline_at, "timeout": record.attempt_timeout_at,
        "policy": policy_to_json(record.policy) if record.policy else None,
        "suspension": _stored(record.suspension) if record.suspension else None,
    }  # fmt: skip
    vector = {name: getattr(record.state, name) for name in StateVector.__struct_fields__}
    vm.call("glue.put", CORE, _without_none(fields), vector, _without_none(at), NOW - 10)


def _stored(suspension: SuspensionRecord) -> dict[str, Any]:
    """As Lua keeps it: the usual behaviour at its timeout is absent."""
    behavior = suspension.timeout_behavior
    fields = {
        "suspension_id": suspension.suspension_id, "waitpoint_id": WAITPOINT, "unwritten_key": KEY,
        "created_at": NOW - 10, "timeout_at": suspension.timeout_at,
        "timeout_behavior": behavior if behavior is not TimeoutBehavior.FAIL else None,
    }  # fmt: skip
    return _without_none(fields)


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def compare(vm: RuleVm, before: ExecutionRecord, changes: Changes) -> None:
    """The store holds what the rule decided, and its log has the same lines."""
    record, found = changes.apply_to(before), vm.call("glue.get", CORE)
    stored = found["x"]
    state = {name: stored[name] for name in StateVector.__struct_fields__}
    assert state == {name: getattr(record.state, name) for name in StateVector.__struct_fields__}
    numbers = [stored.get(name) for name in ("lease_expires_at", "delay_until", "completed_at")]
    numbers += [found.get("deadline"), found.get("timeout")]
    assert [each and int(each) for each in numbers] == [
        record.lease_expires_at, record.delay_until, record.completed_at, record.deadline_at, record.attempt_timeout_at,
    ]  # fmt: skip
    texts = [
        stored.get(name) for name in ("current_lease_id", "next_attempt_type", "failure_reason", "failure_category")
    ]
    assert texts == [record.lease_id, record.next_attempt_type, record.failure_reason, record.failure_category]
    counts = [int(stored.get(name, 0)) for name in ("retry_count", "lease_reclaim_count", "current_lease_epoch")]
    assert [*counts, found["signals"]] == [
        record.retry_count, record.reclaim_count, record.lease_epoch, record.signal_count,
    ]  # fmt: skip
    _compare_suspension(found, record.suspension)
    entries = vm.client.xrange(PARTITION)
    lines = [line for _, entry in entries for line in entry[b"lines"].decode().split("\n")]
    assert lines == [f"{line.event} {ID} 0 1 {line.outcome}" for line in changes.events]


def _compare_suspension(found: dict[str, Any], expected: SuspensionRecord | None) -> None:
    stored = found.get("suspension")
    if expected is None:
        assert not stored
        return
    assert stored
    usual = SuspensionReasonCode.WAITING_FOR_SIGNAL
    assert found["ending"] == (expected.close_reason or "")
    assert stored.get("reason_code", usual) == expected.reason_code
    if expected.is_open:
        timeout = found["x"].get("suspension_timeout_at")
        assert (timeout and int(timeout)) == expected.timeout_at
    signals = f'["{expected.suspension_id}"]' if expected.resume_signals else None
    assert stored.get("all_satisfier_signals") == signals
