"""Signals and their tokens through plain FCALL: who may send them, where they go, what they do."""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from collections.abc import Callable

import pytest
import valkey

from tests.valkey.refusals.test_refusals_write_nothing import dump
from tests.valkey.wire.suspension_wire import ANY, FAR, SECRET, Waiting, named
from tests.valkey.wire.wire import Reply


@pytest.fixture
def x(wire: valkey.Valkey) -> Waiting:
    return Waiting(wire).started()


def another(x: Waiting) -> Waiting:
    other = Waiting(x.client).started()
    other.suspend(named("approval"))
    return other


def place_of(x: Waiting) -> dict[str, str]:
    return {"waitpoint": x.waitpoint, "token": x.token}


def expired_kid(x: Waiting) -> str:
    x.rotate("k2", "cd" * 32, 0)
    while x.kids()[3] != "0":
        pass
    return x.token


WRONG: dict[str, Callable[[Waiting], dict[str, str]]] = {
    "forged": lambda x: {"token": x.token[:-1] + ("0" if x.token[-1] != "0" else "1")},
    "forged in front": lambda x: {"token": "k1:" + ("0" if x.token[3] != "0" else "1") + x.token[4:]},
    "truncated": lambda x: {"token": x.token[:-1]},
    "longer": lambda x: {"token": x.token + "0"},
    "upper case": lambda x: {"token": "k1:" + x.token[3:].upper() + "A"},
    "without kid": lambda x: {"token": x.token[3:]},
    "only a kid": lambda _: {"token": "k1:"},
    "unknown kid": lambda x: {"token": "k9" + x.token[2:]},
    "forged, of an expired kid": lambda x: {"token": expired_kid(x)[:-1] + "-"},
    "expired, under the current kid": lambda x: {"token": "k2" + expired_kid(x)[2:]},
    "spent in an earlier wait": lambda x: {"token": x.spent},
    "of the waitpoint before it": lambda x: {"waitpoint": x.spent_at, "token": x.token},
    "another execution's": lambda x: {"token": another(x).token},
    "another execution's waitpoint": lambda x: place_of(another(x)),
    "unknown waitpoint": lambda x: {"waitpoint": str(uuid.uuid4()), "token": x.token},
    "a key in place of an id": lambda x: {"waitpoint": f"{x.waitpoint}:condition", "token": x.token},
}  # fmt: skip


def wait_again(x: Waiting, state: str) -> None:
    """After a wait that is over: its waitpoint and token are spent. The next wait, of the same key, gets to a state."""
    x.suspend(named("approval"), key="the same")
    x.spent_at, x.spent = x.waitpoint, x.token
    assert x.deliver()[3] == "resume_condition_satisfied"
    x.go_on()
    if state == "pending":
        x.pending()
    else:
        x.suspend(named("approval"), key="the same")
    if state == "closed":
        x.resume("operator")
    elif state == "finished":
        x.cancel()


@pytest.mark.parametrize("state", ["suspended", "pending", "closed", "finished"])
@pytest.mark.parametrize("wrong", WRONG)
def test_every_wrong_token_is_refused_alike_and_writes_nothing(x: Waiting, wrong: str, state: str) -> None:
    """D7, G6: the original stamped the record, told of expired kids, and buffering told of the waitpoint."""
    wait_again(x, state)
    given = WRONG[wrong](x)
    before = dump(x.client)
    for send in (x.deliver, x.buffer):
        assert send(**given) == [0, "invalid_token"]
    assert dump(x.client) == before


@pytest.mark.parametrize(
    ("state", "delivered"),
    [
        ("suspended", ["waitpoint_closed"]),
        ("pending", ["target_not_signalable", "active"]),
        ("closed", ["target_not_signalable", "waiting"]),
        ("finished", ["target_not_signalable", "cancelled"]),
    ],
)
def test_who_has_the_token_of_a_closed_waitpoint_learns_that_and_writes_nothing(
    x: Waiting, state: str, delivered: list[str]
) -> None:
    wait_again(x, state)
    buffered = delivered if state == "finished" else ["waitpoint_closed"]
    before = dump(x.client)
    for token, told in ((x.spent, (delivered, buffered)), (x.spent[:-1], (["invalid_token"],) * 2)):
        at = {"waitpoint": x.spent_at, "token": token}
        assert (x.deliver(**at)[1:], x.buffer(**at)[1:]) == told
    assert dump(x.client) == before


def test_a_token_signs_the_waitpoints_id_key_and_creation(x: Waiting) -> None:
    x.suspend()
    created = x.fields(x.wp())["created_at"]
    message = f"{x.waitpoint}|{x.key}|{created}".encode()
    assert x.token == "k1:" + hmac.new(bytes.fromhex(SECRET), message, "sha1").hexdigest()


def test_a_kid_that_is_declared_so_signs_with_sha256(wire: valkey.Valkey) -> None:
    """D9: the original knows SHA-1 alone."""
    x = Waiting(wire)
    x.seed("new", SECRET, "sha256")
    x.run()
    x.suspend(named("approval"), key="k" * 100)
    message = f"{x.waitpoint}|{x.key}|{x.fields(x.wp())['created_at']}".encode()
    assert x.token == "new:" + hmac.new(bytes.fromhex(SECRET), message, hashlib.sha256).hexdigest()
    assert x.client.object("encoding", x.wp()) in (b"listpack", b"hashtable")
    assert x.deliver(token=x.token[:-1] + "x") == [0, "invalid_token"]
    assert x.deliver()[3] == "resume_condition_satisfied"


def test_who_holds_the_store_needs_no_token_and_no_secret(x: Waiting) -> None:
    x.suspend(named("approval"))
    x.client.delete(x.secrets)
    assert x.send(signal="s1") == [1, "OK", "s1", "resume_condition_satisfied"]
    assert x.send(signal="s1") == [1, "DUPLICATE", "s1"]
    record = x.fields(f"ff:signal:{x.tag}:s1")
    assert (record["target_waitpoint_id"], record["target_scope"]) == (x.waitpoint, "execution")


def test_many_closed_waitpoints_are_passed_over(x: Waiting) -> None:
    x.client.sadd(x.exec("waitpoints"), *(f"closed-{number}" for number in range(2500)))
    x.pending()
    assert x.send()[3] == "buffered_for_pending_waitpoint"
    assert x.client.lrange(x.wp(":signals"), 0, -1)


def test_a_signal_of_an_earlier_suspension_does_not_wake_a_later_one(x: Waiting) -> None:
    """D1: in the original the old token resumed it, since an operator's resume left the old condition open."""
    x.suspend(named("approval"))
    old = place_of(x)
    x.resume("operator")
    x.go_on().suspend(named("approval"))
    assert x.deliver(**old) == [0, "waitpoint_closed"]
    x.client.hset(x.wp("", old["waitpoint"]), "state", "active")  # even if it had been left open
    assert x.deliver(**old) == [0, "waitpoint_closed"]
    assert x.field("public_state") == "suspended"
    assert x.deliver()[3] == "resume_condition_satisfied"


def test_a_pending_waitpoint_refuses_a_delivery_and_keeps_a_buffered_signal(x: Waiting) -> None:
    x.pending()
    assert x.deliver() == [0, "waitpoint_pending_use_buffer_script"]
    reply = x.buffer(signal="s1")
    assert reply == [1, "OK", "s1", "buffered_for_pending_waitpoint"]
    assert x.deliver("buffer", signal="s2")[3] == "buffered_for_pending_waitpoint"
    token = x.token
    assert x.suspend(named("approval"), pending="1", waitpoint=x.waitpoint) == [
        1, "ALREADY_SATISFIED", x.suspension, x.waitpoint, x.key, token, "0",
    ]  # fmt: skip
    assert (x.field("public_state"), x.field("current_lease_id")) == ("active", x.lease)
    assert x.fields(x.wp())["state"] == "closed"
    assert [signal[0] for signal in x.resume_signals()[-1]] == ["s1"]
    assert x.complete()[0] == 1


def test_a_signal_buffered_at_an_active_waitpoint_is_evaluated(x: Waiting) -> None:
    """D2: the original recorded it and the wake-up was lost."""
    x.pending()
    x.suspend(named("approval"), pending="1", waitpoint=x.waitpoint)
    assert x.buffer()[3] == "resume_condition_satisfied"
    assert x.field("public_state") == "waiting"


def test_what_was_buffered_counts_together_with_what_comes(x: Waiting) -> None:
    x.pending()
    x.buffer(name="a")
    x.suspend(named("a", "b", mode="all"), pending="1", waitpoint=x.waitpoint)
    assert x.field("public_state") == "suspended"
    assert x.client.exists(x.idx("pending_waitpoint_expiry")) == 0
    assert x.deliver(name="a")[3] == "no_op"
    assert x.deliver(name="b")[3] == "resume_condition_satisfied"
    assert [signal[1] for signal in x.resume_signals()[-1]] == ["a", "b"]


def test_the_effects_of_a_set_of_names(x: Waiting) -> None:
    x.suspend(named("a", "b", "c", minimum=2))
    assert x.deliver(name="x")[3] == "no_op"
    assert x.deliver(name="b", signal="s1")[3] == "appended_to_waitpoint"
    assert x.deliver(name="b")[3] == "no_op"
    assert x.fields(x.wp())["signal_count"] == "3"
    assert x.deliver(name="a", signal="s2")[3] == "resume_condition_satisfied"
    condition = x.fields(x.wp(":condition"))
    assert condition["total_matchers"] == "3"
    assert (condition["matcher:0:signal_id"], condition["matcher:1:signal_id"]) == ("s2", "s1")
    assert (condition["matcher:0:satisfied"], condition["closed"]) == ("1", "1")
    stored = x.fields(x.exec("suspension:current"))
    assert (stored["closer_signal_id"], json.loads(stored["all_satisfier_signals"])) == ("s2", ["s2", "s1"])
    assert [line.split()[0] for line in x.events()[-4:]] == ["signalled", "signalled", "signalled", "woken"]


@pytest.mark.parametrize("names", [["b"], ["a", "b"], ["a", "b", 'a","b']])
def test_names_are_enough_for_a_condition(x: Waiting, names: list[str]) -> None:
    x.suspend(json.dumps({"required_signal_names": names}, separators=(",", ":")))
    assert x.deliver(name='a","c')[3] == "no_op"
    assert x.deliver(name="b")[3] == "resume_condition_satisfied"


@pytest.mark.parametrize("name", ["__operator_only__", "__timeout_only__", "__timeout__", "__composite__", ""])
def test_no_signal_may_carry_a_reserved_name(x: Waiting, name: str) -> None:
    x.suspend(named("__operator_only__", mode="all"))
    assert x.deliver(name=name)[:2] == [0, "invalid_input"]
    assert x.deliver(name="approval")[3] == "no_op"


def test_a_signal_is_kept_with_its_payload_as_bytes(x: Waiting) -> None:
    x.suspend(named("approval"))
    x.deliver(signal="s1", payload=b"\xff\x00")
    record = x.fields(f"ff:signal:{x.tag}:s1")
    assert record.keys() == {"signal_name", "signal_category", "source_type", "source_identity", "accepted_at",
                             "target_waitpoint_id", "observed_effect"}  # fmt: skip
    assert x.client.get(f"ff:signal:{x.tag}:s1:payload") == b"\xff\x00"
    (signal,) = x.resume_signals()[-1]
    assert signal == ["s1", "approval", "decision", "human", "ann", "", record["accepted_at"], "", x.waitpoint,
                      "\udcff\x00"]  # fmt: skip
    assert x.resume_signals()[3:8] == [x.suspension, "0", "resumed", "", [[x.waitpoint, x.key]]]


def test_a_repeated_signal_is_a_duplicate_whatever_happened_since(x: Waiting) -> None:
    x.suspend(named("a", "b", mode="all"))
    first = x.deliver(name="a", idem="once", signal="s1")
    assert first[3] == "appended_to_waitpoint"
    assert x.deliver(name="b", idem="once", signal="s2") == [1, "DUPLICATE", "s1"]
    assert x.deliver(name="a", signal="s1") == [1, "DUPLICATE", "s1"]
    x.deliver(name="b", idem="twice", signal="s3")
    before = dump(x.client)
    assert x.deliver(name="b", idem="twice", signal="s4") == [1, "DUPLICATE", "s3"]
    assert dump(x.client) == before


def test_an_idempotency_key_belongs_to_its_waitpoint_and_runs_out(x: Waiting) -> None:
    x.suspend(named("a"))
    x.deliver(name="a", idem="once")
    key = f"ff:sigdedup:{x.tag}:{x.waitpoint}:once"
    assert 0 < x.client.pttl(key) <= 86_400_000
    x.go_on().suspend(named("a"))
    assert x.deliver(name="a", idem="once")[3] == "resume_condition_satisfied"


def test_a_signal_id_of_another_execution_is_refused(x: Waiting) -> None:
    other = another(x)
    other.deliver(signal="s1")
    x.suspend(named("approval"))
    assert x.deliver(signal="s1") == [
        0, "invalid_input", "signal_id: expected an id that is not in use, got 's1'",
    ]  # fmt: skip


def limited(x: Waiting, policy: str, most: object) -> Reply:
    x.client.set(x.exec("policy"), policy)
    x.suspend(named("a", "b", "c", mode="all"))
    x.deliver(name="a", most=most)
    return x.deliver(name="b", most=most)


@pytest.mark.parametrize(("policy", "most"), [("{}", 1), ('{"max_signals_per_execution":1}', "")])
def test_signals_of_one_execution_are_limited(x: Waiting, policy: str, most: object) -> None:
    assert limited(x, policy, most) == [0, "signal_limit_exceeded", "1"]


@pytest.mark.parametrize(("policy", "most"), [("{}", 0), ('{"max_signals_per_execution":1}', 0), ("{}", "")])
def test_no_limit_is_none(x: Waiting, policy: str, most: object) -> None:
    assert limited(x, policy, most)[3] == "appended_to_waitpoint"


def test_a_full_buffer_forgets_its_oldest_signals(x: Waiting) -> None:
    x.pending()
    for name in ("a", "b", "c"):
        x.buffer(name=name, maxlen=2)
    x.suspend(named("a"), pending="1", waitpoint=x.waitpoint)
    assert x.field("public_state") == "suspended"


def test_a_pending_waitpoint_that_ran_out_keeps_nothing(x: Waiting) -> None:
    x.pending()
    x.client.hset(x.wp(), "expires_at", 1)
    assert x.buffer() == [0, "waitpoint_closed", "expired"]
    assert x.suspend(ANY, pending="1", waitpoint=x.waitpoint) == [0, "pending_waitpoint_expired"]


def test_a_lease_holder_may_repeat_the_making_of_a_waitpoint(x: Waiting) -> None:
    waitpoint, fence = str(uuid.uuid4()), (x.lease, 1, x.attempt)
    first = x.pending(waitpoint, *fence)
    assert x.pending(waitpoint, *fence) == [1, "DUPLICATE", *first[2:]]
    assert x.pending(waitpoint) == [0, "waitpoint_already_exists"]
    assert x.client.zscore(x.idx("pending_waitpoint_expiry"), waitpoint) == FAR


def test_the_signals_of_a_suspension_are_read_page_by_page(x: Waiting) -> None:
    x.suspend(named("a", "b", "c", mode="all"))
    for name in "cab":
        x.deliver(name=name, signal=f"s-{name}")
    whole = x.resume_signals()[-1]
    assert {signal[0] for signal in whole} == {"s-a", "s-b", "s-c"}
    first = x.resume_signals(0, "", 2)
    assert (first[2], first[-1]) == ("1", whole[:2])
    rest = x.resume_signals(0, whole[1][0], 2)
    assert (rest[2], rest[-1]) == ("0", whole[2:])
    assert x.resume_signals(1)[-1] == []
