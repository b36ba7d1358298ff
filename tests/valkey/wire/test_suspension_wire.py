"""Suspensions through plain FCALL: what is written, what ends them, and what every end leaves closed."""

from __future__ import annotations

import json
import uuid

import pytest
import valkey

from tests.valkey.wire.suspension_wire import ANY, FAR, FORM, WITH_FORM, Waiting, named, single
from tests.valkey.wire.suspension_wire import composite as tree_of


@pytest.fixture
def x(wire: valkey.Valkey) -> Waiting:
    return Waiting(wire).started()


def state_of(x: Waiting) -> tuple[str | None, ...]:
    return tuple(x.field(name) for name in ("lifecycle_phase", "public_state", "blocking_reason", "attempt_state"))


def test_a_suspension_gives_the_lease_back_and_answers_the_token(x: Waiting) -> None:
    reply = x.suspend(named("approval"), timeout=FAR)
    assert reply == [1, "OK", x.suspension, x.waitpoint, f"wpk:{x.waitpoint}", x.token, "0"]
    assert state_of(x) == ("suspended", "suspended", None, None)
    assert x.field("current_lease_id") is None
    assert (x.field("current_suspension_id"), x.field("current_waitpoint_id")) == (x.suspension, x.waitpoint)
    for index in ("lease_expiry", "attempt_timeout"):
        assert x.client.zscore(x.idx(index), x.id) is None
    assert x.client.zscore(x.lane_idx("active"), x.id) is None
    assert x.client.scard(x.worker_leases) == 0
    assert x.client.zscore(x.lane_idx("suspended"), x.id) == FAR
    assert x.client.zscore(x.idx("suspension_timeout"), x.id) == FAR
    assert x.events()[-1] == "suspended 0 1 waiting_for_signal"


def test_without_a_time_out_it_sorts_last_and_is_never_due(x: Waiting) -> None:
    x.suspend()
    assert x.client.zscore(x.lane_idx("suspended"), x.id) == 9_999_999_999_999
    assert x.client.exists(x.idx("suspension_timeout")) == 0
    assert x.expire_suspension() == [1, "OK", "not_yet_due"]


def test_nothing_usual_is_stored(x: Waiting) -> None:
    usual = {"resume_target": "runnable", "consume_matched_signals": True, "close_waitpoint_on_resume": True,
             "retain_signal_buffer_until_closed": False}  # fmt: skip
    x.suspend(named("approval"), policy=json.dumps(usual))
    stored = x.fields(x.exec("suspension:current"))
    assert set(stored) == {"suspension_id", "waitpoint_id", "created_at", "attempt_index", "lease_id",
                           "resume_condition_json"}  # fmt: skip
    assert json.loads(stored["resume_condition_json"]) == {"required_signal_names": ["approval"]}
    assert not x.client.keys(f"{x.wp()}:*")
    assert x.client.exists(x.exec("signals")) == 0


def test_a_suspended_execution_is_small(x: Waiting) -> None:
    x.suspend(named("approval"), timeout=FAR)
    own = [key for pattern in (x.exec("*"), x.wp("*")) for key in x.client.keys(pattern.replace("{", "\\{"))]
    assert len(own) == 5
    assert sum(x.client.memory_usage(key, samples=0) for key in own) < 2_000


@pytest.mark.parametrize(
    ("reason", "blocking"),
    [
        ("waiting_for_approval", "waiting_for_approval"),
        ("waiting_for_operator_review", "paused_by_operator"),
        ("paused_by_budget", "waiting_for_budget"),
        ("step_boundary", None),
        ("bespoke", None),
    ],
)
def test_the_reason_says_what_blocks(x: Waiting, reason: str, blocking: str | None) -> None:
    x.suspend(reason=reason)
    assert x.field("blocking_reason") == blocking
    assert x.fields(x.exec("suspension:current"))["reason_code"] == reason


def test_the_same_attempt_goes_on_after_a_signal(x: Waiting) -> None:
    x.suspend(named("approval"))
    assert x.deliver()[3] == "resume_condition_satisfied"
    assert state_of(x) == ("runnable", "waiting", None, "attempt_interrupted")
    assert x.field("current_suspension_id") is None
    x.grant()
    reply = x.claim_resumed()
    assert reply[3] == "2"
    assert reply[5:] == [x.attempt, "0", "resumed"]
    assert [line.split()[0] for line in x.events()][-3:] == ["suspended", "woken", "resumed"]


def closed(x: Waiting, reason: str, *waitpoints: str, **own: str) -> None:
    """own: the reason of a waitpoint that has one of its own."""
    assert x.fields(x.exec("suspension:current"))["close_reason"] == reason
    for waitpoint in waitpoints or (x.waitpoint,):
        record = x.fields(x.wp("", waitpoint))
        assert (record["state"], record["close_reason"]) == ("closed", own.get(waitpoint, reason))
        condition = x.fields(x.wp(":condition", waitpoint))
        assert not condition or condition["closed"] == "1"
    assert not x.client.keys(f"{x.exec('suspension:current')}:*".replace("{", "\\{"))
    assert x.client.exists(x.idx("suspension_timeout")) == 0


def closed_by_operator(x: Waiting) -> None:
    x.close("operator_override")


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda x: x.deliver(name="b"), "resumed"),
        (lambda x: x.resume("operator"), "resumed"),
        (lambda x: x.cancel(), "cancelled"),
        (lambda x: x.expire("manual"), "expired:manual"),
        (closed_by_operator, "resumed"),
    ],
    ids=["satisfied", "operator", "cancel", "expire", "close"],
)
def test_every_end_closes_conditions_and_all_waitpoints(x: Waiting, end: object, reason: str) -> None:
    """D1: the original left the condition, or the first waitpoint, open."""
    second = str(uuid.uuid4())
    x.suspend(named("a", "b", mode="all"), timeout=FAR, extra=("", "", 1, second, "wpk:2"))
    x.deliver(name="a")
    end(x)  # type: ignore[operator]
    own = {x.waitpoint: "enough"} if end is closed_by_operator else {}
    closed(x, reason, x.waitpoint, second, **own)


@pytest.mark.parametrize(
    ("behavior", "status", "reason"),
    [
        ("fail", ["fail", "failed"], "timed_out_fail"),
        ("cancel", ["cancel", "cancelled"], "timed_out_cancel"),
        ("expire", ["expire", "expired"], "timed_out_expire"),
        ("auto_resume", ["auto_resume", "waiting"], "timed_out_auto_resume"),
        ("auto_resume_with_timeout_signal", ["auto_resume", "waiting"], "timed_out_auto_resume"),
    ],
)
@pytest.mark.parametrize("by_engine", [False, True])
def test_a_time_out_does_what_was_asked_for(
    x: Waiting, behavior: str, status: list[str], reason: str, by_engine: bool
) -> None:
    x.suspend(named("a", "b", mode="all"), timeout=1, behavior=behavior)
    x.deliver(name="a")
    if by_engine:
        woken = status[0] == "auto_resume"
        assert x.due()[2:] == ["0"] * 6 + [str(int(woken)), "0", str(int(not woken)), "0"]
    else:
        assert x.expire_suspension() == [1, "OK", *status]
    assert x.field("public_state") == status[1]
    closed(x, reason)
    assert x.due()[2:] == ["0"] * 10
    if status[1] == "failed":
        assert (x.field("failure_reason"), x.field("failure_category")) == ("suspension_timeout:fail", "timeout")


def test_a_time_out_leaves_a_signal_only_where_one_was_asked_for(x: Waiting) -> None:
    """D4: the original injected none."""
    x.suspend(named("a"), timeout=1, behavior="auto_resume")
    x.expire_suspension()
    assert x.resume_signals()[-1] == []
    x.go_on().suspend(named("a"), timeout=1, behavior="auto_resume_with_timeout_signal")
    x.expire_suspension()
    (signal,) = x.resume_signals()[-1]
    assert signal[:5] == [x.suspension, "__timeout__", "timeout", "system", "suspension_timeout"]


def test_an_escalated_suspension_waits_for_an_operator_or_its_signal(x: Waiting) -> None:
    x.suspend(named("approval"), timeout=1, behavior="escalate")
    assert x.expire_suspension() == [1, "OK", "escalate", "suspended"]
    assert state_of(x)[:3] == ("suspended", "suspended", "paused_by_operator")
    stored = x.fields(x.exec("suspension:current"))
    assert stored["reason_code"] == "waiting_for_operator_review"
    assert not {"timeout_at", "timeout_behavior"} & stored.keys()
    assert x.due()[2:] == ["0"] * 10
    assert x.expire_suspension() == [1, "OK", "not_yet_due"]
    assert x.events()[-1].startswith("escalated")
    assert x.deliver()[3] == "resume_condition_satisfied"


def test_a_time_out_that_is_stale_is_cleaned(x: Waiting) -> None:
    x.client.zadd(x.idx("suspension_timeout"), {x.id: 1, f"{x.tag}:{uuid.uuid4()}": 1})
    assert x.expire_suspension() == [1, "OK", "not_suspended_cleaned"]
    assert x.due()[2:] == ["0"] * 10
    assert x.client.exists(x.idx("suspension_timeout")) == 0
    x.suspend(timeout=FAR)
    x.client.zadd(x.idx("suspension_timeout"), {x.id: 1})
    x.due()
    assert x.client.zscore(x.idx("suspension_timeout"), x.id) == FAR
    x.client.delete(x.exec("suspension:current"))
    assert x.expire_suspension() == [1, "OK", "no_active_suspension_cleaned"]
    assert Waiting(x.client).expire_suspension() == [1, "OK", "not_found_cleaned"]


@pytest.mark.parametrize("by", ["resume", "signal", "policy"])
def test_a_resume_with_delay_is_promoted_when_due(x: Waiting, by: str) -> None:
    """D3: the original wrote no delay_until, so that the promotion was a script error."""
    x.suspend(named("approval"), policy='{"resume_delay_ms":60000}' if by == "policy" else "")
    if by == "resume":
        assert x.resume("operator", 60_000) == [1, "OK", "delayed"]
    else:
        x.deliver(delay=60_000 if by == "signal" else "")
    assert state_of(x) == ("runnable", "delayed", "waiting_for_resume_delay", "attempt_interrupted")
    due = int(x.field("delay_until") or 0)
    assert x.client.zscore(x.lane_idx("delayed"), x.id) == due
    assert x.promote(due - 1) == [1, "OK", "not_yet_due"]
    assert x.promote(due) == [1, "OK", "promoted"]
    x.go_on()
    assert x.field("public_state") == "active"


@pytest.mark.parametrize("condition", [named(minimum=2), named("a", "b", minimum=3), named(minimum=0)])
def test_a_minimum_that_can_never_be_met_is_refused(x: Waiting, condition: str) -> None:
    """D5: the original suspended for ever."""
    reply = x.suspend(condition)
    assert reply[:2] == [0, "invalid_input"]
    assert reply[2].startswith("resume_condition_json: expected minimum_signal_count")
    assert x.field("public_state") == "active"


def test_a_repeated_suspend_with_the_same_key_gets_the_same_answer(x: Waiting) -> None:
    more = ("once", 60_000, 1, str(uuid.uuid4()), "wpk:2")
    first = x.suspend(extra=more)
    assert first[6] == "1"
    assert x.suspend(extra=more) == first
    assert x.suspend(extra=("twice",))[:2] == [0, "execution_not_active"]
    x.deliver()
    assert x.suspend(extra=more) == first


@pytest.mark.parametrize("buffered", [False, True])
def test_a_repeated_suspend_is_known_by_its_ids(x: Waiting, buffered: bool) -> None:
    x.pending()
    if buffered:
        x.buffer()
    waitpoint, suspension = x.waitpoint, str(uuid.uuid4())
    first = x.suspend(pending="1", waitpoint=waitpoint, suspension=suspension)
    assert first[1] == ("ALREADY_SATISFIED" if buffered else "OK")
    assert x.suspend(pending="1", waitpoint=waitpoint, suspension=suspension) == first


def test_an_operator_can_say_which_suspension_is_meant(x: Waiting) -> None:
    x.suspend()
    first = x.suspension
    x.resume("operator")
    x.go_on().suspend()
    assert x.resume("operator", 0, first) == [0, "execution_not_suspended", "suspended", x.suspension]
    assert x.resume("operator", 0, x.suspension) == [1, "OK", "waiting"]


def test_several_waitpoints_each_have_a_token_of_their_own(x: Waiting) -> None:
    second, third = str(uuid.uuid4()), str(uuid.uuid4())
    reply = x.suspend(named("go"), extra=("", "", 2, second, "b", third, "c"))
    assert reply[6] == "2"
    assert [reply[7:9], reply[10:12]] == [[second, "b"], [third, "c"]]
    assert len({reply[5], reply[9], reply[12]}) == 3
    assert x.deliver(waitpoint=second, token=x.token) == [0, "invalid_token"]
    assert x.deliver(waitpoint=third, token=reply[12], name="go")[3] == "resume_condition_satisfied"
    closed(x, "resumed", x.waitpoint, second, third)


def test_a_duration_is_counted_by_the_stores_clock(x: Waiting) -> None:
    x.suspend(extra=("", "", 0, 60_000))
    created = int(x.fields(x.exec("suspension:current"))["created_at"])
    assert int(x.field("suspension_timeout_at") or 0) == created + 60_000


def test_an_active_waitpoint_is_closed_by_an_operator_alone(x: Waiting) -> None:
    """D8: the original closed it and the execution waited for ever, or was woken by a late signal."""
    x.suspend(named("approval"))
    assert x.close() == [0, "waitpoint_not_pending", "active"]
    assert x.close("operator_override") == [1, "OK"]
    assert x.field("public_state") == "waiting"
    assert x.close() == [1, "OK", "already_closed"]
    assert x.deliver() == [0, "target_not_signalable", "waiting"]


def test_pending_waitpoints_are_closed_when_nobody_comes(x: Waiting) -> None:
    x.pending(None, "", "", "", 1)
    while x.due()[-1] == "0":
        pass
    assert x.fields(x.wp())["close_reason"] == "never_committed"
    assert x.client.exists(x.idx("pending_waitpoint_expiry")) == 0
    assert x.buffer() == [0, "waitpoint_closed"]


def test_a_pending_waitpoint_of_an_earlier_attempt_can_be_taken_up(x: Waiting) -> None:
    x.pending()
    waitpoint, token = x.waitpoint, x.token
    x.buffer()
    x.revoke()
    x.reclaim_grant()
    x.reclaim()
    x.epoch = 2
    lists = x.fcall("ff_suspend_execution", x.filled(17), x.id, 1, x.attempt, x.lease, 2, str(uuid.uuid4()), waitpoint,
                    "", "", "", "", ANY, "", "", "1", "fail", 1000)  # fmt: skip
    assert lists == [0, "invalid_waitpoint_for_execution"]
    taken = x.fcall("ff_suspend_execution", x.filled(17), x.id, 1, x.attempt, x.lease, 2, str(uuid.uuid4()), waitpoint,
                    "", "", "", "", ANY, "", "", "by_key", "fail", 1000)  # fmt: skip
    assert taken[:2] == [1, "ALREADY_SATISFIED"]
    assert taken[5] == token


def test_the_suspended_are_listed_by_their_time_out(wire: valkey.Valkey) -> None:
    found = []
    for timeout in (FAR, "", FAR - 1, FAR):
        x = Waiting(wire).started()
        x.suspend(timeout=timeout, reason="waiting_for_approval")
        found.append(x)
    listed: list[str] = []
    place: tuple[object, object] = ("", "")
    for _ in range(4):
        reply = x.fcall("ff_list_suspended", [f"ff:part:{x.tag}:events"], "", "", *place, 1)
        place = (reply[3], reply[4])
        listed += [entry[0] for entry in reply[5]]
        assert reply[5][0][2:4] == ["default", "waiting_for_approval"]
    assert reply[2] == "0"
    ties = sorted([found[0].id, found[3].id])
    assert listed == [found[2].id, *ties, found[1].id]
    assert x.fcall("ff_list_suspended", [f"ff:part:{x.tag}:events"], "", "manual_pause", "", "", 10)[5] == []


def test_open_waitpoints_are_listed_without_their_tokens(x: Waiting) -> None:
    x.pending()
    pending = x.waitpoint
    x.suspend(tree_of(single("k", "go")), key="k", timeout=FAR)
    reply = x.waitpoints()
    assert reply[2] == "0"
    by_state = {entry[2]: entry for entry in reply[4]}
    assert by_state["pending"][0] == pending
    active = by_state["active"]
    assert (active[0], active[1], active[5], active[6], active[9]) == (x.waitpoint, "k", str(FAR), "k1", ["go"])
    assert len(active[7]) == 16
    assert x.token.split(":")[1] not in json.dumps(reply)
    first = x.waitpoints(limit=1)
    assert first[2] == "1"
    assert [*first[4], *x.waitpoints(first[3])[4]] == reply[4]


def test_everything_a_suspension_left_goes_with_its_execution(x: Waiting) -> None:
    x.pending()
    x.buffer()
    x.suspend(named("a", "b", mode="all"), extra=("", "", 1, str(uuid.uuid4()), "b"))
    x.deliver(name="a", idem="once")
    x.cancel()
    x.fcall("ff_trim_executions", [f"ff:part:{x.tag}:events"], "", 0, "", "", "", "", 10)
    left = {key for key in x.client.keys("*") if x.client.pttl(key) == -1}
    logs = {f"ff:part:{x.tag}:events", f"ff:part:{x.tag}:event_lines"}
    assert {key.decode() for key in left} == logs | {x.secrets, x.known_of_secrets}


def test_a_rejected_signal_leaves_the_wait_as_it_was(x: Waiting) -> None:

    x.suspend(named("approval"), timeout=FAR)
    place, token = x.waitpoint, x.token
    x.deliver(signal="s1", payload=b"nonsense")
    x.go_on()
    assert x.reject("s1", "payload: must be JSON")[:2] == [1, "OK"]
    assert [line.split(" ", 3)[::3] for line in x.events()[-2:]] == [
        ["signal_rejected", "s1 payload: must be JSON"],
        ["suspended", "waiting_for_signal"],
    ]
    (open_one,) = x.waitpoints()[4]
    assert (open_one[0], open_one[5]) == (place, str(FAR))
    assert x.deliver(signal="s2", token=token)[3] == "resume_condition_satisfied"


def test_the_form_of_a_wait_is_told_and_judged_by_those_who_ask(x: Waiting) -> None:

    x.suspend(named("approval"), extra=WITH_FORM)
    assert x.waitpoints()[5] == FORM
    assert x.deliver("refuse", "keep", "ask")[:4] == [0, "answer_unchecked", x.suspension, FORM]
    assert x.send("ask", name="other")[:2] == [0, "target_not_signalable"]
    assert x.deliver("refuse", "keep", "ask", name="other")[3] == "no_op"
    assert x.deliver("refuse", "keep", x.suspension)[3] == "resume_condition_satisfied"
