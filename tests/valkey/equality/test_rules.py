"""Every rule of executions that Lua repeats gives the same answer as `flowfabric.core.rules`, on the real VM."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
import valkey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowfabric.core import capability, limits
from flowfabric.core import contracts as c
from flowfabric.core.condition_json import condition_to_json
from flowfabric.core.conditions import AllOf, Count, Delivery, ResumeCondition
from flowfabric.core.ids import AttemptId, ExecutionId, LaneId, LeaseId, SignalId, WaitpointId, WaitpointKey
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.rules.execution import claims, idempotency, lease, order
from flowfabric.core.rules.execution.record import ExecutionRecord
from flowfabric.core.rules.execution.steps import moves
from flowfabric.core.rules.execution.tag_names import is_tag_name
from flowfabric.core.rules.execution.transitions import SITUATIONS, Situation
from flowfabric.core.rules.waits import tally
from flowfabric.core.rules.waits.suspension import blocking_reason
from flowfabric.core.states import AttemptState, AttemptType, OwnershipState, StateVector
from tests.conformance.random_conditions import KEYS, NAMES, SOURCES, condition
from tests.valkey.equality.conftest import Call

ID = ExecutionId.deterministic_for_lane(LaneId("default"), PartitionConfig(), "11111111-1111-4111-8111-111111111111")
LEASES, ATTEMPTS = [LeaseId.new() for _ in range(2)], [AttemptId.new() for _ in range(2)]
NOW = 1_000

fast = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
states = st.sampled_from(list(SITUATIONS.values()))


def as_record(record: ExecutionRecord) -> dict[str, Any]:
    """The record as `lib/record/record.lua` has it after reading it."""
    state = {name: getattr(record.state, name) for name in StateVector.__struct_fields__}
    text = {
        "current_lease_id": record.lease_id, "current_lease_epoch": str(record.lease_epoch),
        "lease_expires_at": record.lease_expires_at and str(record.lease_expires_at),
        "current_attempt_id": record.attempt_id, "next_attempt_type": record.next_attempt_type,
        "delay_until": record.delay_until and str(record.delay_until), "id": ID,
    }  # fmt: skip
    return state | {name: value for name, value in text.items() if value is not None}


@st.composite
def records(draw: st.DrawFn) -> ExecutionRecord:
    """A record whose lease is held has the ids of the lease and of its attempt."""
    state = draw(states)
    absent = [] if state.ownership_state is OwnershipState.LEASED else [None]
    return ExecutionRecord(
        execution_id=ID,
        state=state,
        lease_id=draw(st.sampled_from([*absent, *LEASES])),
        lease_epoch=draw(st.integers(0, 2)),
        lease_expires_at=draw(st.sampled_from([None, NOW - 1, NOW, NOW + 1])),
        attempt_id=draw(st.sampled_from([*absent, *ATTEMPTS])),
        next_attempt_type=draw(st.sampled_from([None, AttemptType.RECLAIM])),
        delay_until=draw(st.sampled_from([None, NOW])),
    )


fences = st.builds(
    c.LeaseFence,
    lease_id=st.sampled_from(LEASES), lease_epoch=st.integers(0, 2), attempt_id=st.sampled_from(ATTEMPTS),
)  # fmt: skip


@fast
@given(record=records(), fence=st.none() | fences, source=st.sampled_from(c.CancelSource), own=st.booleans())
def test_the_fence_is_checked_in_the_same_order(
    call: Call, record: ExecutionRecord, fence: c.LeaseFence | None, source: c.CancelSource, own: bool
) -> None:
    if own and fence and record.lease_id and record.attempt_id:
        fence = c.LeaseFence(lease_id=record.lease_id, lease_epoch=record.lease_epoch, attempt_id=record.attempt_id)
    refusal = lease.check_fence("complete_execution", record, fence, source, NOW)
    given_fence = (fence.lease_id, str(fence.lease_epoch), fence.attempt_id) if fence else ("", "", "")
    argument = dict(zip(("lease_id", "lease_epoch", "attempt_id"), given_fence, strict=True))
    found = call("lease.check", as_record(record), argument, source, NOW)
    assert (found and found[1]) == (refusal and refusal.code)
    if refusal and refusal.details:
        assert found[2:] == [str(value) for value in refusal.details.values()]


@fast
@given(record=records(), parts=st.lists(st.booleans(), min_size=3, max_size=3).filter(lambda p: 0 < sum(p) < 3))
def test_a_part_of_a_fence_is_refused_first(call: Call, record: ExecutionRecord, parts: list[bool]) -> None:
    names = ("lease_id", "lease_epoch", "attempt_id")
    fence = {name: "1" if is_given else "" for name, is_given in zip(names, parts, strict=True)}
    assert call("lease.check", as_record(record), fence, "operator_override", NOW)[1] == "partial_fence_triple"


@fast
@given(record=records())
def test_the_kind_of_the_next_attempt_is_the_same(call: Call, record: ExecutionRecord) -> None:
    assert call("attempt.next_kind", as_record(record)) == claims.next_attempt_type(record)


@pytest.mark.parametrize("situation", Situation)
def test_the_same_executions_can_be_claimed_reclaimed_replaced_and_unblocked(call: Call, situation: Situation) -> None:
    state = SITUATIONS[situation]
    x = as_record(ExecutionRecord(execution_id=ID, state=state))
    assert call("reclaim.is_reclaimable", x) == moves("reclaim_execution", state)
    assert call("replace.is_open", x) == idempotency.has_not_started(state)
    assert call("blocked.is_held_back", x) == moves("unblock_execution", state)
    assert call("claim.is_queued", x) == moves("issue_grant_and_claim", state)


@fast
@given(required=st.sets(st.sampled_from("abcde")), offered=st.sets(st.sampled_from("abcde")))
def test_missing_capabilities_are_the_same(call: Call, required: set[str], offered: set[str]) -> None:
    missing = capability.missing(required, offered)
    found = call("capability.check", capability.to_csv(required), capability.to_csv(offered))
    assert found == (("capability_mismatch", ",".join(missing)) if missing else None)


@fast
@given(priority=st.integers(-limits.PRIORITY_MAX, 2 * limits.PRIORITY_MAX))
def test_priorities_are_clamped_to_the_same_bounds(call: Call, priority: int) -> None:
    assert call("order.clamp_priority", priority) == order.clamp_priority(priority)


@fast
@given(
    created_at=st.integers(10**12, 2 * 10**12),
    priority=st.integers(0, limits.PRIORITY_MAX),
    ageing=st.none() | st.integers(1, 10**6),
)
def test_the_place_in_the_queue_is_the_same(call: Call, created_at: int, priority: int, ageing: int | None) -> None:
    settings_of_lane = {"state": "active", "ageing_ms_per_priority": ageing}
    x = {"created_at": created_at, "priority": priority or None, "lane_settings": settings_of_lane}
    assert int(call("order.score", x)) == order.score(created_at, priority, ageing)


@pytest.mark.parametrize("code", c.SuspensionReasonCode)
def test_a_suspension_blocks_for_the_same_reason(call: Call, code: c.SuspensionReasonCode) -> None:
    step = call("suspending.step", code)
    assert step["state"]["blocking_reason"] == blocking_reason(code)
    assert step["state"]["attempt_state"] == AttemptState.ATTEMPT_INTERRUPTED


def _deliveries(rng: Random, places: dict[WaitpointKey, WaitpointId]) -> list[Delivery]:
    ids = [SignalId.new() for _ in range(4)]
    return [
        Delivery(
            signal_id=rng.choice(ids), signal_name=rng.choice(NAMES), waitpoint_id=rng.choice(list(places.values())),
            source_type=source[0], source_identity=source[1],
        )
        for source in (rng.choice(SOURCES) for _ in range(rng.randint(1, 6)))
    ]  # fmt: skip


def _lua_effects(vm: valkey.Valkey, wanted: ResumeCondition, keys: dict[str, str], sent: list[Delivery]) -> list[str]:
    rows = [
        {
            "id": each.signal_id, "name": each.signal_name, "w": each.waitpoint_id, "key": keys[each.waitpoint_id],
            "source_type": each.source_type, "source_identity": each.source_identity,
        }
        for each in sent
    ]  # fmt: skip
    reply = vm.execute_command(
        "FCALL", "ffequal_credit", 0, condition_to_json(wanted), json.dumps(dict.fromkeys(KEYS, True)), json.dumps(rows)
    )
    found: list[str] = json.loads(reply)
    return found


@settings(fast, max_examples=300)
@given(seed=st.integers(0, 2**32))
def test_signals_have_the_same_effect_on_every_condition(vm: valkey.Valkey, seed: int) -> None:
    """One after the other, until the condition is met: single, count, all of them, and trees of these."""
    rng = Random(seed)
    wanted = condition(rng)
    is_tree = isinstance(wanted, AllOf | Count)
    places = {key: WaitpointId.new() for key in (KEYS if is_tree else KEYS[:1])}
    if not is_tree and hasattr(wanted, "waitpoint_key"):
        places = {WaitpointKey(wanted.waitpoint_key): WaitpointId.new()}
    keys = {place: key for key, place in places.items()}
    sent = _deliveries(rng, places)
    expected: list[str] = []
    for number, each in enumerate(sent):
        expected.append(tally.effect_of(wanted, keys, sent[:number], each))
        if expected[-1] == c.SignalEffect.RESUMED:
            break
    assert _lua_effects(vm, wanted, keys, sent)[: len(expected)] == expected  # type: ignore[arg-type]


@fast
@given(st.text(max_size=12) | st.integers(120, 135).map("k".__mul__) | st.integers(60, 68).map("ü".__mul__))
def test_the_names_of_tags(call: Call, name: str) -> None:
    assert call("tags.is_key", name) == is_tag_name(name)
