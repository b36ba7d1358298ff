"""Time in Lua and in `core/rules`: lost leases, delays, deadlines, timeouts and resumes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core import limits
from flowfabric.core.contracts.waits.suspension import ResumePolicy
from flowfabric.core.rules.execution import due, lease
from flowfabric.core.rules.execution.record import ExecutionRecord
from flowfabric.core.rules.execution.transitions import SUSPENDED, Situation
from flowfabric.core.rules.outcome import Changes
from flowfabric.core.rules.waits import suspension
from tests.servers import TestServer
from tests.valkey.equality.execution_twins import CORE, GLUE, ID, PARTITION, TAG, compare, put, records
from tests.valkey.equality.vm import MANY, NOW, RuleVm, rule_vm


@pytest.fixture(scope="module")
def vm(wire_server: TestServer) -> Iterator[RuleVm]:
    with rule_vm(wire_server, GLUE) as opened:
        yield opened


@MANY
@given(record=records())
def test_time_brings_the_same_to_every_execution(vm: RuleVm, record: ExecutionRecord) -> None:
    put(vm, record)
    assert vm.fcall("due_batch", [PARTITION], 10)[0] == 1
    compare(vm, record, due.apply_due(record, NOW))


@MANY
@given(record=records())
def test_the_engine_looks_at_an_execution_at_the_same_time(vm: RuleVm, record: ExecutionRecord) -> None:
    """How long something is overdue already makes no difference."""
    put(vm, record)
    found, expected = vm.fcall("next_due", [PARTITION])[2], due.due_at(record)
    assert (max(int(found), NOW) if found else None) == (None if expected is None else max(expected, NOW))


@MANY
@given(record=records())
def test_a_delayed_execution_is_promoted_at_the_same_time(vm: RuleVm, record: ExecutionRecord) -> None:
    put(vm, record)
    vm.fcall("promote_delayed", [CORE, f"ff:idx:{TAG}:lane:default:delayed", ""], ID)
    compare(vm, record, due.promote(record, NOW))


@MANY
@given(record=records())
def test_a_direct_caller_gets_the_same_attempt_timeout(vm: RuleVm, record: ExecutionRecord) -> None:
    put(vm, record)
    vm.fcall("expire_execution", [CORE, *[""] * 13], ID, "attempt_timeout")
    compare(vm, record, due.expire_attempt(record, NOW))


@MANY
@given(record=records())
def test_a_direct_caller_gets_the_same_deadline(vm: RuleVm, record: ExecutionRecord) -> None:
    put(vm, record)
    vm.fcall("expire_execution", [CORE, *[""] * 13], ID, "execution_deadline")
    compare(vm, record, due.reach_deadline(record, NOW))


@MANY
@given(record=records(SUSPENDED))
def test_the_timeout_of_a_suspension_does_the_same(vm: RuleVm, record: ExecutionRecord) -> None:
    put(vm, record)
    vm.fcall("expire_suspension", [CORE, *[""] * 11], ID)
    compare(vm, record, suspension.time_out(record, NOW))


@MANY
@given(record=records(SUSPENDED), delay_ms=st.sampled_from([0, 1, 5_000]))
def test_an_execution_resumes_at_once_or_after_the_same_delay(
    vm: RuleVm, record: ExecutionRecord, delay_ms: int
) -> None:
    put(vm, record)
    vm.fcall("resume_execution", [CORE, *[""] * 7], ID, "operator", delay_ms)
    changes = suspension.resume(record, NOW, trigger="operator", delay_ms=delay_ms)
    assert isinstance(changes, Changes)
    compare(vm, record, changes)


@MANY
@given(delay_ms=st.none() | st.integers(0, limits.MAX_DURATION_MS))
def test_a_resume_policy_keeps_its_delay(vm: RuleVm, delay_ms: int | None) -> None:
    policy = ResumePolicy(resume_delay_ms=delay_ms)
    assert vm.call("glue.delay_of", policy.to_json()) == (policy.resume_delay_ms or 0)


@MANY
@given(record=records((Situation.LEASE_EXPIRED,)), default=st.none() | st.integers(0, 3))
def test_the_same_number_of_reclaims_is_allowed(vm: RuleVm, record: ExecutionRecord, default: int | None) -> None:
    put(vm, record)
    cap = lease.reclaim_cap(record, default)
    found = vm.call("glue.reached_cap", CORE, default if default is not None else False)
    assert found == (cap if record.reclaim_count >= cap else False)
