"""Budgets and quotas through plain FCALL, with the positions and replies of the public wire."""

from __future__ import annotations

import pytest
import valkey

from tests.valkey.wire.limit_wire import Budget, Quota
from tests.valkey.wire.wire import Execution

NOW = 1_700_000_000_000


@pytest.fixture
def budget(wire: valkey.Valkey) -> Budget:
    return Budget(wire)


@pytest.fixture
def quota(wire: valkey.Valkey) -> Quota:
    return Quota(wire)


def test_a_budget_is_made_once(budget: Budget) -> None:
    assert budget.create(("tokens", 100, 80), ("calls", 5, 0), interval=60_000) == [1, "OK", budget.id]
    assert budget.create(("tokens", 1, 0)) == [1, "ALREADY_SATISFIED", budget.id]
    assert budget.hash() == {
        "budget_id": budget.id, "scope_type": "lane", "scope_id": "default", "enforcement_mode": "strict",
        "on_hard_limit": "reject", "on_soft_limit": "warn", "reset_interval_ms": "60000", "breach_count": "0",
        "soft_breach_count": "0", "created_at": str(NOW), "last_updated_at": str(NOW),
        "next_reset_at": str(NOW + 60_000),
    }  # fmt: skip
    assert budget.hash(":limits") == {"hard:tokens": "100", "soft:tokens": "80", "hard:calls": "5", "soft:calls": "0"}
    assert budget.client.zscore(f"ff:idx:{budget.tag}:budget_resets", budget.id) == NOW + 60_000
    assert set(budget.client.smembers(f"ff:idx:{budget.tag}:budget_policies")) == {budget.id.encode()}


def test_the_answers_to_a_report(budget: Budget) -> None:
    budget.create(("tokens", 100, 80))
    assert budget.report(tokens=80) == [1, "OK"]
    assert budget.report(budget.dedup("a"), tokens=10) == [1, "SOFT_BREACH", "tokens", "90", "80", "1"]
    assert budget.report(tokens=0) == [1, "SOFT_BREACH", "tokens", "90", "80", "0"]
    assert budget.report(budget.dedup("a"), tokens=10) == [1, "ALREADY_APPLIED"]
    assert budget.client.pttl(budget.dedup("a")) > 86_300_000
    assert budget.report(budget.dedup("b"), tokens=11)[:5] == [1, "HARD_BREACH", "tokens", "90", "100"]
    assert budget.client.exists(budget.dedup("b")) == 0
    assert budget.hash(":usage") == {"tokens": "90"}
    found = budget.hash()
    assert (found["breach_count"], found["soft_breach_count"], found["last_breach_dim"]) == ("1", "1", "tokens")


def test_passed_limits_are_lines_of_the_partitions_log(budget: Budget) -> None:
    budget.create(("tokens", 100, 80))
    budget.report(tokens=90)
    budget.report(tokens=11)
    lines = [entry[b"lines"].decode() for _, entry in budget.client.xrange(f"ff:part:{budget.tag}:events")]
    assert lines == [
        f"budget_soft_breached {budget.tag}:{budget.id}  0 tokens 90 of 80",
        f"budget_hard_breached {budget.tag}:{budget.id}  0 tokens 90 of 100",
    ]
    page = budget.fcall("ff_read_events", [f"ff:part:{budget.tag}:events"], "", "", "default", "", "", "", 10)
    assert [row[1] for row in page[-1]] == ["budget_soft_breached", "budget_hard_breached"]


def test_a_dimension_that_is_named_twice_counts_once_with_the_sum(budget: Budget) -> None:
    budget.create(("tokens", 100, 0))
    keys = [f"{budget.key}:usage", f"{budget.key}:limits", budget.key]
    reply = budget.fcall("ff_report_usage_and_check", keys, 2, "tokens", "tokens", 60, 60, NOW)
    assert reply[:5] == [1, "HARD_BREACH", "tokens", "0", "100"]
    assert budget.fcall("ff_report_usage_and_check", keys, 2, "tokens", "tokens", 60, 40, NOW) == [1, "OK"]
    assert budget.hash(":usage") == {"tokens": "100"}


@pytest.mark.parametrize("delta", ["", "x", "1.5", "-1"])
def test_a_delta_that_is_no_whole_number_counts_nothing(budget: Budget, delta: str) -> None:
    budget.create(("tokens", 100, 0))
    reply = budget.report(calls=1, tokens=delta)
    assert reply[:2] == [0, "invalid_input"]
    assert reply[2].startswith("deltas.tokens: expected")
    assert budget.hash(":usage") == {}


def test_a_dedup_key_of_another_slot_is_refused(budget: Budget) -> None:
    budget.create(("tokens", 100, 0))
    assert budget.report("ff:usagededup:{b:8}:a", tokens=1)[:2] == [0, "invalid_input"]


def test_what_is_spent_counts_always_and_is_given_back_by_execution(budget: Budget) -> None:
    budget.create(("tokens", 10, 0))
    assert budget.spend("x1", budget.dedup("a"), tokens=8, calls=1) == [1, "OK"]
    assert budget.spend("x1", budget.dedup("a"), tokens=8) == [1, "ALREADY_APPLIED"]
    assert budget.spend("x2", tokens=8)[:5] == [1, "HARD_BREACH", "tokens", "16", "10"]
    assert budget.hash(":by_exec:x1")["tokens"] == "8"
    assert budget.release("x1") == [1, "OK", "released"]
    assert budget.release("x1") == [1, "OK", "noop"]
    assert budget.hash(":usage") == {"tokens": "8", "calls": "0"}


def test_a_reset(budget: Budget) -> None:
    budget.create(("tokens", 10, 0), interval=1_000)
    budget.spend("x1", tokens=11)
    assert budget.reset(NOW + 5_000) == [1, "OK", str(NOW + 6_000)]
    assert budget.hash(":usage") == {"tokens": "0"}
    assert budget.hash()["reset_count"] == "1"
    assert "last_breach_at" not in budget.hash()
    assert budget.release("x1") == [1, "OK", "noop"], "what was spent before a reset is not taken from what came after"


def test_a_reset_without_an_interval_has_no_next_one(budget: Budget) -> None:
    budget.create(("tokens", 10, 0))
    assert budget.reset() == [1, "OK", "0"]
    assert budget.client.exists(f"ff:idx:{budget.tag}:budget_resets") == 0


def test_a_quota_policy_is_made_once(quota: Quota) -> None:
    assert quota.create() == [1, "OK", quota.id]
    assert quota.create(1, 1, 1) == [1, "ALREADY_SATISFIED", quota.id]
    assert quota.hash() == {
        "quota_policy_id": quota.id, "requests_per_window_seconds": "60", "max_requests_per_window": "2",
        "active_concurrency_cap": "2", "created_at": str(NOW),
    }  # fmt: skip


def test_the_answers_of_an_admission(quota: Quota) -> None:
    assert quota.check("x1", NOW) == ["ADMITTED"]
    assert quota.check("x1", NOW) == ["ALREADY_ADMITTED"]
    assert quota.check("x2", NOW + 1_000) == ["ADMITTED"]
    assert quota.check("x3", NOW + 2_000) == ["RATE_EXCEEDED", "58000"]
    assert quota.check("x3", NOW + 60_000) == ["ADMITTED"]
    assert quota.check("x4", NOW, window="x")[:2] == [0, "invalid_input"]


def test_a_slot_is_given_back_by_its_own_execution_alone(quota: Quota) -> None:
    assert quota.check("x1", NOW, rate=0, cap=1) == ["ADMITTED"]
    assert quota.check("x2", NOW, rate=0, cap=1) == ["CONCURRENCY_EXCEEDED"]
    assert quota.release("x2") == [1, "OK", "released"]
    assert quota.check("x2", NOW, rate=0, cap=1) == ["CONCURRENCY_EXCEEDED"]
    assert quota.client.ttl(f"{quota.key}:admitted:x1") == -1, "the window does not end what runs longer"
    assert quota.release("x1") == [1, "OK", "released"]
    assert quota.check("x2", NOW, rate=0, cap=1) == ["ADMITTED"]


def test_one_without_slots_may_start_again_in_the_next_window(quota: Quota) -> None:
    assert quota.check("x1", NOW, rate=5) == ["ADMITTED"]
    assert 0 < quota.client.pttl(f"{quota.key}:admitted:x1") <= 60_000
    assert quota.client.exists(f"{quota.key}:admitted_set") == 0


def test_limits_of_the_policy_are_kept_in_the_record(wire: valkey.Valkey, budget: Budget, quota: Quota) -> None:
    x = Execution(wire)
    x.create(policy=f'{{"budget_ids":["{budget.id}"],"quota_policy_ids":["{quota.id}"]}}')
    assert (x.field("budget_ids"), x.field("quota_policy_id")) == (budget.id, quota.id)
    assert x.grant_and_claim() == [0, "execution_not_eligible", "admission_required"]


def test_a_scheduler_of_its_own_grants_what_it_admitted_and_the_end_owes_the_slot(
    wire: valkey.Valkey, quota: Quota
) -> None:
    x = Execution(wire)
    x.create(policy=f'{{"quota_policy_ids":["{quota.id}"]}}')
    assert quota.check(x.id, NOW, rate=0, cap=1) == ["ADMITTED"]
    assert x.grant()[:3] == [1, "OK", x.id]
    x.claim()
    x.complete()
    entries = x.client.zrange(f"ff:part:{x.tag}:handovers", 0, -1)
    ticket = str(x.field("admission_seq"))
    assert [entry.decode().split(" ")[:5] for entry in entries] == [[x.id, x.id, ticket, "1", "1"]]
    assert entries[0].decode().split(" ")[7:] == [quota.id, "-", "-"]


@pytest.mark.parametrize("policy", ['{"budget_ids":"b"}', '{"budget_ids":["a b"]}', '{"quota_policy_ids":[1]}'])
def test_a_policy_with_malformed_limits_is_refused(wire: valkey.Valkey, policy: str) -> None:
    assert Execution(wire).create(policy=policy)[:2] == [0, "invalid_policy_json"]
