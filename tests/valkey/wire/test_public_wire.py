"""Every public function through plain FCALL with the 0.2.0 positions, and the documented replies."""

from __future__ import annotations

import json
import time
import uuid

import pytest
import valkey

from tests.valkey.wire.wire import Execution

NOW = 9_000_000_000_000  # later than any test
RETRY = json.dumps({"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}})


@pytest.fixture
def x(wire: valkey.Valkey) -> Execution:
    return Execution(wire)


def test_version_is_bare_text(wire: valkey.Valkey) -> None:
    assert wire.execute_command("FCALL", "ff_version", 0).isdigit()


def test_create_answers_the_id_and_the_public_state(x: Execution) -> None:
    assert x.create() == [1, "OK", x.id, "waiting"]
    assert x.create() == [1, "DUPLICATE", x.id]
    assert x.client.zscore(x.lane_idx("eligible"), x.id) is not None
    assert x.client.get(x.exec("payload")) == b"in"


def test_create_with_an_idempotency_key_answers_the_first_id(x: Execution) -> None:
    x.create(idem="order-1", ttl=60_000)
    second = Execution(x.client)
    assert second.create(idem="order-1", ttl=60_000) == [1, "DUPLICATE", x.id]
    assert 0 < x.client.pttl(f"ff:idem:{x.tag}:ns:order-1") <= 60_000


def test_create_delayed(x: Execution) -> None:
    assert x.create(delay_until=NOW, zset="delayed") == [1, "OK", x.id, "delayed"]
    assert x.client.zscore(x.lane_idx("delayed"), x.id) == NOW


@pytest.mark.parametrize("zset", ["eligible", "delayed"])
def test_create_with_a_past_delay_is_eligible_whatever_key_was_passed(x: Execution, zset: str) -> None:
    assert x.create(delay_until=1, zset=zset) == [1, "OK", x.id, "waiting"]
    assert x.client.zscore(x.lane_idx("eligible"), x.id) is not None
    assert x.client.zscore(x.lane_idx("delayed"), x.id) is None


def requires(capabilities: str) -> str:
    return f'{{"routing_requirements":{{"required_capabilities":{capabilities}}}}}'


@pytest.mark.parametrize(
    ("policy", "code", "detail"),
    [
        ("{", "invalid_policy_json", "malformed"),
        ('{"routing_requirements":null}', "invalid_policy_json", "routing_requirements:not_object"),
        (requires("null"), "invalid_capabilities", "required:not_array"),
        (requires("[1]"), "invalid_capabilities", "required:non_string_token"),
        (requires('[""]'), "invalid_capabilities", "required:empty_token"),
        (requires('["a,b"]'), "invalid_capabilities", "required:comma_in_token"),
        (requires('["a b"]'), "invalid_capabilities", "required:control_or_whitespace"),
        ('{"max_reclaim_count":"x"}', "invalid_policy_json", "max_reclaim_count:not_a_count"),
        (
            '{"retry_policy":{"backoff":{"multiplier":0}}}',
            "invalid_policy_json",
            "retry_policy.backoff.multiplier:out_of_range",
        ),
    ],
)
def test_create_refuses_a_malformed_policy(x: Execution, policy: str, code: str, detail: str) -> None:
    assert x.create(policy=policy) == [0, code, detail]
    assert x.client.dbsize() == 0


def test_create_clamps_the_priority(x: Execution) -> None:
    x.create(priority=99_999)
    assert x.field("priority") == "9000"
    other = Execution(x.client)
    other.create(priority=-5)
    assert other.field("priority") is None


def test_grant_then_claim(x: Execution) -> None:
    x.create()
    assert x.grant()[:3] == [1, "OK", x.id]
    assert x.client.hget(x.exec("claim_grant"), "worker_id") == b"w-1"
    status, word, lease, epoch, expires, attempt, index, kind = x.claim()
    assert (status, word, lease, epoch, attempt, index, kind) == (
        1,
        "OK",
        x.lease,
        "1",
        x.attempt,
        "0",
        "initial",
    )
    assert int(expires) > time.time() * 1000
    assert x.client.exists(x.exec("claim_grant")) == 0
    assert x.client.sismember(x.worker_leases, x.id)
    assert x.client.zscore(x.idx("lease_expiry"), x.id) == x.client.zscore(x.lane_idx("active"), x.id) == int(expires)


def test_grant_refusals(x: Execution) -> None:
    assert x.grant() == [0, "execution_not_found"]
    x.create(policy='{"routing_requirements":{"required_capabilities":["gpu","eu"]}}')
    assert x.grant(capabilities="eu") == [0, "capability_mismatch", "gpu"]
    assert x.grant(ttl="")[:2] == [0, "invalid_input"]
    assert x.grant(capabilities="x" * 4097) == [0, "invalid_capabilities", "worker:too_many_bytes"]
    assert x.grant(capabilities="eu,gpu")[0] == 1
    assert x.grant(capabilities="eu,gpu") == [0, "grant_already_exists"]


def test_claim_refusals(x: Execution) -> None:
    assert x.claim() == [0, "execution_not_found"]
    x.create()
    assert x.claim() == [0, "invalid_claim_grant"]
    x.grant(worker="somebody-else")
    assert x.claim() == [0, "invalid_claim_grant"]
    assert x.claim(ttl="")[:2] == [0, "invalid_input"]
    assert x.claim(policy="{")[:2] == [0, "invalid_input"]


def test_claim_keeps_the_attempt_policy_it_was_given(x: Execution) -> None:
    x.run(policy='{"model":"m","limits":{"tokens":5}}')
    assert x.client.hgetall(x.att(0, ":policy")) == {b"model": b"m", b"limits": b'{"tokens":5}'}


def test_claim_a_delayed_execution_is_refused(x: Execution) -> None:
    x.create(delay_until=NOW)
    assert x.grant()[:2] == [0, "execution_not_eligible"]
    assert x.claim()[:2] == [0, "execution_not_leaseable"]


def test_complete(x: Execution) -> None:
    x.run()
    assert x.complete() == [1, "OK", "completed"]
    assert x.client.get(x.exec("result")) == b"out"
    assert x.client.zscore(x.lane_idx("terminal"), x.id) is not None
    for index in (x.lane_idx("active"), x.idx("lease_expiry"), x.worker_leases):
        assert x.client.exists(index) == 0


def test_complete_repeated_says_what_was_recorded(x: Execution) -> None:
    x.run()
    x.complete()
    assert x.complete()[:6] == [0, "execution_not_active", "success", "1", "terminal", x.attempt]


def test_complete_refusals(x: Execution) -> None:
    assert x.complete() == [0, "execution_not_found"]
    x.run()
    assert x.complete(epoch=2) == [0, "stale_lease"]
    assert x.complete(lease="") == [0, "partial_fence_triple"]
    assert x.complete(lease="", epoch="", attempt="") == [0, "fence_required"]
    override = ("operator_override",)
    assert x.complete(lease="", epoch="", attempt="", extra=override) == [1, "OK", "completed"]


def test_payloads_are_bytes(x: Execution) -> None:
    blob = bytes(range(256))
    x.create(payload=blob)
    x.grant()
    x.claim()
    x.complete(result=blob)
    assert x.client.get(x.exec("payload")) == x.client.get(x.exec("result")) == blob


def test_fail_without_policy_is_terminal(x: Execution) -> None:
    x.run()
    assert x.fail() == [1, "OK", "terminal_failed"]
    assert x.field("public_state") == "failed"


def test_fail_keeps_the_exception_with_the_attempt(x: Execution) -> None:
    x.run()
    too_large = x.fail(extra=("", "", "argument", "x" * 16_385))
    assert too_large[:2] == [0, "invalid_input"]
    assert "failure_detail" in too_large[2]
    assert x.field("public_state") == "active"
    assert x.fail(extra=("", "", "argument", '{"type":"E"}')) == [1, "OK", "terminal_failed"]
    *_, details = x.fcall("ff_list_attempts", [x.core], x.id, 0, 10)
    assert details == ['{"type":"E"}']


@pytest.mark.parametrize("policy", ["", "nonsense", "null", "[]", '{"max_retries":0}'])
def test_fail_with_a_policy_without_retries_is_terminal(x: Execution, policy: str) -> None:
    x.run()
    assert x.fail(policy=policy) == [1, "OK", "terminal_failed"]


def test_fail_schedules_a_retry_and_the_next_claim_is_one(x: Execution) -> None:
    x.run()
    status, word, outcome, delay_until = x.fail(policy=RETRY)
    assert (status, word, outcome) == (1, "OK", "retry_scheduled")
    assert delay_until.isdigit()
    assert x.promote(NOW) == [1, "OK", "promoted"]
    x.grant()
    assert x.claim()[-2:] == ["1", "retry"]
    assert x.client.hget(x.att(0), "attempt_state") == b"ended_failure"


@pytest.mark.parametrize("backoff", ["null", '{"type":"exponential"}', "{}"])
def test_fail_with_an_unusual_backoff_never_crashes(x: Execution, backoff: str) -> None:
    x.run()
    assert x.fail(policy=f'{{"max_retries":3,"backoff":{backoff}}}')[:3] == [1, "OK", "retry_scheduled"]


def test_cancel(x: Execution) -> None:
    assert x.cancel() == [0, "execution_not_found"]
    x.create()
    assert x.cancel() == [1, "OK", "cancelled", "runnable"]
    assert x.cancel()[:3] == [0, "execution_not_active", "cancelled"]
    assert x.client.zcard(x.lane_idx("eligible")) == 0


@pytest.mark.parametrize("source", ["", "worker", "lease_holder"])
def test_cancel_with_an_empty_lease_is_no_skeleton_key(x: Execution, source: str) -> None:
    x.run()
    assert x.cancel(source) == [0, "fence_required"]
    assert x.cancel(source, lease=str(uuid.uuid4()), epoch=1) == [0, "stale_lease"]
    assert x.cancel(source, lease=x.lease, epoch=1) == [1, "OK", "cancelled", "active"]


@pytest.mark.parametrize("source", ["operator_override", "flow_cascade", "system_timeout"])
def test_the_operator_and_the_engine_cancel_without_a_lease(x: Execution, source: str) -> None:
    x.run()
    assert x.cancel(source) == [1, "OK", "cancelled", "active"]


def test_delay_and_resume_the_same_attempt(x: Execution) -> None:
    x.run()
    assert x.delay(NOW)[:3] == [1, "OK", str(NOW)]
    assert x.field("attempt_state") == "attempt_interrupted"
    assert x.promote(NOW) == [1, "OK", "promoted"]
    x.grant()
    assert x.claim() == [0, "use_claim_resumed_execution"]
    reply = x.claim_resumed()
    assert (reply[3], reply[5:]) == ("2", [x.attempt, "0", "resumed"])


def test_delay_refuses_a_malformed_time(x: Execution) -> None:
    x.run()
    assert x.delay("soon")[:2] == [0, "invalid_input"]
    assert x.field("lifecycle_phase") == "active"


def test_claim_resumed_refusals(x: Execution) -> None:
    assert x.claim_resumed() == [0, "execution_not_found"]
    x.create()
    assert x.claim_resumed() == [0, "not_a_resumed_execution"]


def test_claim_resumed_looks_at_eligibility(x: Execution) -> None:
    x.run()
    x.delay(1)
    assert x.grant()[0] == 1
    x.block("paused_by_operator", "operator")
    assert x.claim_resumed()[:2] == [0, "execution_not_leaseable"]


def test_move_to_waiting_children(x: Execution) -> None:
    x.run()
    assert x.move_to_waiting_children() == [1, "OK"]
    assert x.field("public_state") == "waiting_children"
    assert x.client.zscore(x.lane_idx("blocked:dependencies"), x.id) == int(x.field("created_at") or 0)


def test_renew(x: Execution) -> None:
    x.run(ttl=1000)
    before = x.field("lease_expires_at")
    status, word, expires = x.renew(ttl=60_000)
    assert (status, word) == (1, "OK")
    assert int(expires) > int(before or 0)
    assert x.client.zscore(x.idx("lease_expiry"), x.id) == int(expires)
    assert x.renew(index=1) == [0, "stale_lease"]
    assert x.renew(epoch=9) == [0, "stale_lease"]
    assert x.renew(ttl="")[:2] == [0, "invalid_input"]
    assert x.renew(grace="x")[:2] == [0, "invalid_input"]


def test_an_expired_lease_is_refused_and_not_marked(x: Execution) -> None:
    x.run(ttl=1)
    _wait_for_expiry(x)
    assert x.complete() == [0, "lease_expired"]
    assert x.renew() == [0, "lease_expired"]
    assert x.progress(1) == [0, "lease_expired"]
    assert x.field("ownership_state") is None, "still leased, which is what an active execution is by default"


def test_mark_lease_expired_if_due(x: Execution) -> None:
    assert x.mark_expired() == [1, "ALREADY_SATISFIED", "execution_not_found"]
    x.create()
    assert x.mark_expired() == [1, "ALREADY_SATISFIED", "not_active"]
    x.grant()
    x.claim(ttl=1)
    _wait_for_expiry(x)
    assert x.mark_expired() == [1, "OK", "marked_expired"]
    assert x.mark_expired() == [1, "ALREADY_SATISFIED", "already_expired"]


def test_mark_lease_expired_before_it_is_due(x: Execution) -> None:
    x.run()
    assert x.mark_expired() == [1, "ALREADY_SATISFIED", "not_yet_expired"]


def test_revoke_and_reclaim(x: Execution) -> None:
    assert x.revoke() == [0, "execution_not_found"]
    x.run()
    assert x.reclaim_grant()[:2] == [0, "execution_not_reclaimable"]
    assert x.revoke(str(uuid.uuid4()))[:2] == [0, "stale_lease"]
    assert x.revoke(x.lease) == [1, "OK", "revoked", x.lease, "1"]
    assert x.revoke() == [1, "ALREADY_SATISFIED", "already_revoked"]
    assert x.complete() == [0, "lease_revoked"]
    assert x.reclaim() == [0, "invalid_claim_grant"]
    assert x.reclaim_grant()[:3] == [1, "OK", x.id]
    reply = x.reclaim()
    assert (reply[2], reply[3], reply[5:]) == (x.lease, "2", [x.attempt, "1", "reclaim"])
    assert x.client.hget(x.att(0), "attempt_state") == b"interrupted_reclaimed"


def test_reclaim_at_the_cap_fails_the_execution_and_says_so(x: Execution) -> None:
    x.create(policy='{"max_reclaim_count":0}')
    x.grant()
    x.claim()
    x.revoke()
    x.reclaim_grant()
    assert x.reclaim() == [0, "max_retries_exhausted", "0"]
    assert x.field("public_state") == "failed"
    assert x.field("attempt_state") is None, "terminal, which is the default of the phase"
    assert x.client.exists(x.lane_idx("active"), x.idx("lease_expiry")) == 0


def test_reclaim_takes_a_default_cap(x: Execution) -> None:
    x.run()
    x.revoke()
    x.reclaim_grant()
    assert x.reclaim(0) == [0, "max_retries_exhausted", "0"]
    assert x.reclaim("x")[:2] == [0, "invalid_input"]


def test_expire_answers_and_cleans(x: Execution) -> None:
    x.client.zadd(x.idx("execution_deadline"), {x.id: 1})
    assert x.expire("execution_deadline") == [1, "OK", "not_found_cleaned"]
    assert x.client.exists(x.idx("execution_deadline")) == 0
    x.create(deadline=1)
    assert x.expire("execution_deadline") == [1, "OK", "expired", "runnable"]
    assert x.expire("execution_deadline") == [1, "OK", "already_terminal"]


def test_expire_checks_again_whether_it_is_due(x: Execution) -> None:
    x.create(deadline=NOW)
    assert x.expire("execution_deadline") == [1, "OK", "not_yet_due"]
    x.grant()
    x.claim(timeout=60_000)
    assert x.expire() == [1, "OK", "not_yet_due"]
    assert x.field("public_state") == "active"


def test_attempt_timeout_without_retries_keeps_its_answer(x: Execution) -> None:
    x.run(timeout=1)
    _wait_for_expiry(x, index="attempt_timeout")
    assert x.expire("attempt_timeout") == [1, "OK", "expired", "active"]


def test_attempt_timeout_follows_the_retry_policy(x: Execution) -> None:
    x.create(policy=f'{{"retry_policy":{RETRY}}}')
    x.grant()
    x.claim(timeout=1)
    _wait_for_expiry(x, index="attempt_timeout")
    assert x.expire()[:3] == [1, "OK", "retry_scheduled"]


def test_grant_and_claim_in_one_step(x: Execution) -> None:
    assert x.grant_and_claim() == [0, "execution_not_found"]
    x.create(policy='{"routing_requirements":{"required_capabilities":["gpu"]}}')
    assert x.grant_and_claim() == [0, "capability_mismatch", "gpu"]
    assert x.grant_and_claim("gpu")[:5] == [1, "OK", x.lease, "1", "0"]


def test_change_priority(x: Execution) -> None:
    assert x.change_priority(1) == [0, "execution_not_found"]
    x.create(priority=3)
    assert x.change_priority(10_000) == [1, "OK", "3", "9000"]
    assert x.change_priority("high")[:2] == [0, "invalid_input"]
    assert x.client.zscore(x.lane_idx("eligible"), x.id) == -9000 * 10**12 + int(x.field("created_at") or 0)
    x.cancel()
    assert x.change_priority(1)[:2] == [0, "execution_not_eligible"]


def test_progress(x: Execution) -> None:
    assert x.progress(1) == [0, "execution_not_found"]
    x.run()
    assert x.progress(40, "half way") == [1, "OK"]
    assert x.progress("", "") == [1, "OK"]
    assert (x.field("progress_pct"), x.field("progress_message")) == ("40", "half way")
    assert x.progress(101)[:2] == [0, "invalid_input"]


def test_promote(x: Execution) -> None:
    assert x.promote(NOW) == [1, "OK", "not_found_cleaned"]
    x.create(delay_until=NOW)
    assert x.promote(NOW - 1) == [1, "OK", "not_yet_due"]
    assert x.promote("")[:2] == [0, "invalid_input"]
    assert x.promote(NOW) == [1, "OK", "promoted"]
    assert x.promote(NOW) == [1, "OK", "not_delayed_cleaned"]
    x.cancel()
    assert x.promote(NOW) == [1, "OK", "not_runnable_cleaned"]


@pytest.mark.parametrize(
    ("reason", "index", "public"),
    [
        ("waiting_for_budget", "budget", "rate_limited"),
        ("waiting_for_quota", "quota", "rate_limited"),
        ("waiting_for_capable_worker", "route", "waiting"),
        ("paused_by_operator", "operator", "waiting"),
        ("paused_by_policy", "lane_state", "waiting"),
    ],
)
def test_block_and_unblock_each_reason(x: Execution, reason: str, index: str, public: str) -> None:
    x.create()
    assert x.block(reason, index) == [1, "OK", "blocked"]
    assert (x.field("public_state"), x.field("blocking_reason")) == (public, reason)
    assert x.client.zscore(x.lane_idx("eligible"), x.id) is None
    assert x.client.zscore(x.lane_idx(f"blocked:{index}"), x.id) == 1_700_000_000_000
    assert x.unblock(index, "another_reason")[:2] == [0, "execution_not_eligible"]
    assert x.unblock(index, reason)[:3] == [1, "OK", "unblocked"]
    assert x.client.zscore(x.lane_idx("eligible"), x.id) is not None


def test_block_refusals(x: Execution) -> None:
    assert x.block("waiting_for_budget", "budget") == [0, "execution_not_found"]
    x.create()
    assert x.block("bad_mood", "budget")[:2] == [0, "invalid_blocking_reason"]
    assert x.block("waiting_for_budget", "budget", now="")[:2] == [0, "invalid_input"]
    x.grant()
    x.claim()
    assert x.block("waiting_for_budget", "budget")[:2] == [0, "execution_not_eligible"]
    x.complete()
    assert x.block("waiting_for_budget", "budget")[:2] == [0, "execution_not_active"]


def test_replay(x: Execution) -> None:
    assert x.replay() == [0, "execution_not_found"]
    x.run()
    assert x.replay()[:2] == [0, "execution_not_terminal"]
    x.complete()
    assert x.replay() == [1, "OK", "0", "waiting"]
    x.grant()
    assert x.claim()[-2:] == ["1", "replay"]


def test_retry(x: Execution) -> None:
    assert x.retry() == [0, "execution_not_found"]
    x.run()
    assert x.retry() == [0, "execution_not_terminal", "active"]
    x.cancel()
    assert x.retry() == [1, "OK", "0", "waiting"]
    x.grant()
    assert x.claim()[-2:] == ["1", "retry"]
    assert x.complete(epoch=2)[0] == 1
    assert x.retry()[:3] == [0, "retry_not_allowed", "completed"]


def test_fork(x: Execution) -> None:
    fork_id = f"{x.tag}:00000000-0000-4000-8000-00000000f00d"
    assert x.fork(fork_id) == [0, "execution_not_found"]
    x.run()
    assert x.fork(fork_id) == [0, "fork_not_allowed", "active"]
    x.cancel()
    assert x.fork(fork_id) == [1, "OK", fork_id, "waiting", "0"]
    assert x.fork(fork_id)[:3] == [1, "DUPLICATE", fork_id]
    assert x.fork(fork_id, "plan", 0)[:2] == [1, "DUPLICATE"]
    assert x.fork(fork_id[:-1] + "e", "plan", 0)[:2] == [0, "invalid_input"]


def test_replay_is_limited(x: Execution) -> None:
    x.create(policy='{"max_replay_count":1}')
    x.cancel()
    assert x.replay()[0] == 1
    x.cancel()
    assert x.replay() == [0, "max_replays_exhausted", "1"]


def test_tags(x: Execution) -> None:
    assert x.set_tags("team.a", "1") == [0, "execution_not_found"]
    x.create(tags='{"origin":"web"}')
    assert x.set_tags("team.a", "1", "team.b", "2") == [1, "OK", "2"]
    assert x.set_tags("team.a")[:2] == [0, "invalid_input"]
    assert x.set_tags()[:2] == [0, "invalid_input"]
    assert x.set_tags("team.c", "3", "two\nlines", "4") == [0, "invalid_tag_key", "two\nlines"]
    assert x.client.hgetall(x.exec("tags")) == {b"origin": b"web", b"team.a": b"1", b"team.b": b"2"}


def test_a_watched_execution_lists_its_watchers_after_its_end(x: Execution) -> None:
    watcher = "{fp:0}:11111111-1111-4111-8111-111111111111"
    assert x.watch(watcher) == [0, "execution_not_found"]
    x.create()
    assert x.watch(x.id)[:2] == [0, "invalid_input"]
    assert x.watch(watcher) == [1, "OK", "watching", "waiting"]
    partition = [f"ff:part:{x.tag}:events"]
    assert x.fcall("ff_watched_ends", partition, 10) == [1, "OK", []]
    x.cancel()
    assert x.fcall("ff_watched_ends", partition, 10) == [1, "OK", [x.id, watcher]]
    assert x.watch(watcher) == [1, "OK", "ended", "cancelled"]
    assert x.fcall("ff_watched_ends", partition, 10) == [1, "OK", []]


@pytest.mark.parametrize("tags", ["{", '"text"', '{"a":{"b":1}}', '{"a":null}', "[1]"])
def test_create_refuses_malformed_tags(x: Execution, tags: str) -> None:
    assert x.create(tags=tags)[:2] == [0, "invalid_input"]
    assert x.client.dbsize() == 0


@pytest.mark.parametrize("value", ["", "x", "1.5", "nan", "inf", "1e3", "99999999999999"])
def test_create_refuses_a_malformed_priority(x: Execution, value: str) -> None:
    assert x.create(priority=value)[:2] == [0, "invalid_input"]
    assert x.client.dbsize() == 0


def test_a_call_with_too_few_keys_is_refused(x: Execution) -> None:
    assert x.fcall("ff_complete_execution", [], x.id)[:2] == [0, "invalid_input"]


def test_keys_that_a_function_derives_may_be_left_out_at_the_end(x: Execution) -> None:
    x.run()
    assert x.fcall("ff_complete_execution", [x.core], x.id, x.lease, 1, x.attempt, "")[:2] == [1, "OK"]
    assert x.field("public_state") == "completed"


def test_a_core_key_of_another_execution_is_refused(x: Execution) -> None:
    other = Execution(x.client).run()
    keys = [other.core, *(f"ff:noop:{x.tag}" for _ in range(11))]
    reply = x.fcall("ff_complete_execution", keys, x.id, other.lease, 1, other.attempt, "")
    assert reply[:2] == [0, "invalid_input"]
    assert other.field("public_state") == "active"


def test_a_member_of_a_cancelled_flow_cannot_be_claimed(x: Execution) -> None:
    x.create()
    x.grant()
    x.client.hset(x.core, "flow_id", "f-1")
    x.client.hset(f"ff:flow:{x.tag}:f-1:core", "public_flow_state", "cancelled")
    assert x.claim() == [0, "execution_not_leaseable", "flow_cancelled"]
    assert x.grant_and_claim()[:2] == [0, "grant_already_exists"]


def test_the_end_of_a_flow_member_is_published(x: Execution) -> None:
    channel = x.client.pubsub(ignore_subscribe_messages=True)
    channel.subscribe("ff:dag:completions")
    channel.get_message(timeout=5)
    x.run()
    x.client.hset(x.core, "flow_id", "f-1")
    x.complete()
    message = channel.get_message(timeout=5)
    assert json.loads(message["data"]) == {"execution_id": x.id, "flow_id": "f-1", "outcome": "success"}
    channel.close()


@pytest.mark.parametrize("way", ["cancel", "expire"])
def test_ending_a_suspended_execution_closes_its_waitpoints(x: Execution, way: str) -> None:
    x.run()
    _suspend_by_hand(x)
    reply = x.cancel() if way == "cancel" else x.expire("operator_decision")
    assert reply[2:] == [{"cancel": "cancelled", "expire": "expired"}[way], "suspended"]
    for waitpoint in ("wp-1", "wp-2"):
        assert x.client.hget(f"ff:wp:{x.tag}:{waitpoint}", "state") == b"closed"
        assert x.client.hget(f"ff:wp:{x.tag}:{waitpoint}:condition", "closed") == b"1"
    assert x.client.hget(x.exec("suspension:current"), "closed_at") is not None
    assert x.client.exists(x.lane_idx("suspended"), x.idx("suspension_timeout")) == 0


def test_ending_an_attempt_closes_its_stream(x: Execution) -> None:
    x.run()
    x.client.hset(x.smeta(0), "stream_id", "s")
    x.client.hset(x.core, "stream_attempt_index", 0)
    x.complete()
    assert x.client.hget(x.smeta(0), "closed_reason") == b"attempt_success"


def _suspend_by_hand(x: Execution) -> None:
    """What a suspension leaves on the public wire."""
    x.client.zrem(x.lane_idx("active"), x.id)
    x.client.zrem(x.idx("lease_expiry"), x.id)
    x.client.srem(x.worker_leases, x.id)
    x.client.hset(x.core, mapping={"lifecycle_phase": "suspended", "suspension_timeout_at": NOW})
    x.client.zadd(x.lane_idx("suspended"), {x.id: NOW})
    x.client.zadd(x.idx("suspension_timeout"), {x.id: NOW})
    extra = json.dumps([{"waitpoint_id": "wp-2", "waitpoint_key": "k2"}])
    record = {"suspension_id": "s", "waitpoint_id": "wp-1", "waitpoint_key": "k1", "additional_waitpoints_json": extra}
    x.client.hset(x.exec("suspension:current"), mapping=record)
    for waitpoint in ("wp-1", "wp-2"):
        x.client.hset(f"ff:wp:{x.tag}:{waitpoint}", "state", "active")
        x.client.hset(f"ff:wp:{x.tag}:{waitpoint}:condition", "closed", "0")


def _wait_for_expiry(x: Execution, index: str = "lease_expiry") -> None:
    """Until the server's own clock is past the entry's score."""
    due = x.client.zscore(x.idx(index), x.id)
    while True:
        seconds, micros = x.client.time()
        if seconds * 1000 + micros // 1000 > due:
            return


def test_a_category_of_several_lines_stays_one_line_of_the_event_log(x: Execution) -> None:
    x.run()
    x.fail(policy=RETRY, category="first\nsecond third")
    (_, fields), *_ = x.client.xrevrange(f"ff:part:{x.tag}:events", count=1)
    assert fields[b"lines"].endswith(b" 0 1 first second third")
