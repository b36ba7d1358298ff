"""How each refusal of the functions of suspensions, waitpoints, signals and secrets is provoked."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from tests.valkey.wire.suspension_wire import ANY, FAR, SECRET, WITH_FORM, Waiting, named

Step = Callable[[Waiting], Any]
Scenario = tuple[str, str, Step, Step]


def nothing(_: Waiting) -> None: ...


def seeded(x: Waiting) -> None:
    x.seed()


def in_grace(x: Waiting) -> None:
    x.seed()
    x.rotate("k2", "cd" * 32)


def running(x: Waiting) -> None:
    x.started()


def without_a_secret(x: Waiting) -> None:
    x.run()


def with_a_broken_secret(x: Waiting) -> None:
    running(x)
    x.client.hset(x.secrets, "secret:k1", "not hex")


def suspended(x: Waiting) -> None:
    running(x)
    x.suspend(named("approval"))


def suspended_with_a_form(x: Waiting) -> None:
    running(x)
    x.suspend(named("approval"), extra=WITH_FORM)


def told_and_running(x: Waiting) -> None:
    suspended(x)
    x.deliver(signal="s1")
    x.go_on()


def suspended_and_then_without_a_secret(x: Waiting) -> None:
    suspended(x)
    x.client.delete(x.secrets, x.known_of_secrets)


def suspended_and_then_with_a_broken_secret(x: Waiting) -> None:
    suspended(x)
    x.client.hset(x.secrets, "secret:k1", "not hex")
    x.client.delete(x.known_of_secrets)


def with_an_expired_kid(x: Waiting) -> None:
    suspended(x)
    x.rotate("k2", "cd" * 32, 0)
    while x.kids()[3] != "0":
        pass


def pending(x: Waiting) -> None:
    running(x)
    x.pending()


def resumed(x: Waiting) -> None:
    suspended(x)
    x.resume("operator")


def resumed_and_suspended_again(x: Waiting) -> None:
    """It remembers the first waitpoint."""
    resumed(x)
    first = x.waitpoint, x.token
    x.go_on().suspend(named("approval"))
    x.waitpoint, x.token = first


def completed(x: Waiting) -> None:
    running(x)
    x.complete()


def revoked(x: Waiting) -> None:
    running(x)
    x.revoke()


def expired(x: Waiting) -> None:
    x.seed()
    x.run(ttl=1)
    while x.suspend("{")[1] != "lease_expired":
        pass


def unowned(x: Waiting) -> None:
    running(x)
    x.client.hset(x.core, "ownership_state", "unowned")


def broken(name: str, value: str) -> Step:
    """A pending waitpoint whose record says something else than it did."""

    def arrange(x: Waiting) -> None:
        pending(x)
        x.client.hset(x.wp(), name, value)

    return arrange


def token_lost(x: Waiting) -> None:
    pending(x)
    x.client.hdel(x.wp(), "waitpoint_token")


def open_while_active(x: Waiting) -> None:
    """Cannot be reached through functions; the guard is there for broken records."""
    running(x)
    x.client.hset(x.exec("suspension:current"), "suspension_id", "s")


def use_pending(x: Waiting) -> Any:
    return x.suspend(ANY, pending="1", waitpoint=x.waitpoint or "none")


def fence(lease: str | None = None, epoch: object = 1, attempt: str | None = None) -> Step:
    """Suspend under another fence."""

    def call(x: Waiting) -> Any:
        x.lease = x.lease if lease is None else lease
        x.attempt = x.attempt if attempt is None else attempt
        x.epoch = epoch  # type: ignore[assignment]
        return x.suspend()

    return call


def make(*extra: object, **given: Any) -> Step:
    return lambda x: x.pending(None, *extra, **given)


def partition_call(function: str, *args: object) -> Step:
    return lambda x: x.fcall(function, [f"ff:part:{x.tag}:events"], *args)


def secret_call(function: str, *args: object) -> Step:
    return lambda x: x.fcall(function, [x.core], *args)


def extras(*extra: object, pending: str = "") -> Step:
    return lambda x: x.suspend(pending=pending, extra=("", "", *extra))


def large(send: str) -> Step:
    return lambda x: getattr(x, send)(payload=b"x" * 262_145)


def sent(send: str, **given: Any) -> Step:
    return lambda x: getattr(x, send)(**given)


def signals(name: str, send: str) -> list[Scenario]:
    """What a delivery refuses, at once or for a pending waitpoint."""
    return [
        (name, "invalid_input", suspended, sent(send, name="")),
        (name, "invalid_input", suspended, sent(send, signal="a:b")),
        (name, "invalid_input", suspended, sent(send, signal="")),
        (name, "execution_not_found", seeded, sent(send, waitpoint="w", token="k1:" + "0" * 40)),
        (name, "payload_too_large", suspended, large(send)),
        (name, "missing_token", suspended, sent(send, token="")),
        (name, "invalid_token", suspended, sent(send, token="k1:" + "0" * 40)),
        (name, "token_expired", with_an_expired_kid, sent(send)),
        (name, "hmac_secret_not_initialized", suspended_and_then_without_a_secret, sent(send)),
        (name, "hmac_secret_not_initialized", suspended_and_then_without_a_secret, sent(send, waitpoint="none")),
        (name, "target_not_signalable", lambda x: (suspended(x), x.cancel()), sent(send)),
        (name, "waitpoint_closed", resumed_and_suspended_again, sent(send)),
        (name, "signal_limit_exceeded", lambda x: (suspended(x), x.deliver(name="other")), sent(send, most=1)),
    ]  # fmt: skip


SUSPENSION_SCENARIOS: list[tuple[str, str, Any, Any]] = [
    ("suspend_execution", "invalid_input", running, lambda x: x.suspend("{")),
    ("suspend_execution", "invalid_input", running, lambda x: x.suspend(policy="[")),
    ("suspend_execution", "invalid_input", running, lambda x: x.suspend(policy='{"resume_delay_ms":-1}')),
    ("suspend_execution", "invalid_input", running, lambda x: x.suspend(policy="[null,null,null,null,null,null,1]")),
    ("suspend_execution", "invalid_input", running, lambda x: x.suspend(policy='{"a":1e999}')),
    ("suspend_execution", "invalid_input", running, lambda x: x.suspend(behavior="explode")),
    ("suspend_execution", "invalid_input", running, lambda x: x.suspend(waitpoint="a:b")),
    ("suspend_execution", "invalid_input", running, lambda x: x.suspend(suspension="a:b")),
    ("suspend_execution", "invalid_input", running, lambda x: x.suspend(key="")),
    ("suspend_execution", "invalid_input", running, extras(0, "soon")),
    ("suspend_execution", "additional_waitpoint_binding_malformed", running, extras("many")),
    ("suspend_execution", "additional_waitpoint_binding_malformed", running, extras(32)),
    ("suspend_execution", "additional_waitpoint_binding_malformed", running, extras(2, "b", "kb")),
    ("suspend_execution", "additional_waitpoint_binding_malformed", running, extras(1, "b", "")),
    ("suspend_execution", "additional_waitpoint_binding_malformed", running, extras(2, "b", "kb", "b", "kc")),
    ("suspend_execution", "invalid_input", running, lambda x: x.suspend(extra=(*WITH_FORM[:-1], "x" * 131_073))),
    ("suspend_execution", "execution_not_found", seeded, lambda x: x.suspend()),
    ("suspend_execution", "fence_required", running, fence("", "", "")),
    ("suspend_execution", "partial_fence_triple", running, fence("")),
    ("suspend_execution", "execution_not_active", completed, lambda x: x.suspend()),
    ("suspend_execution", "execution_not_active", suspended, lambda x: x.suspend()),
    ("suspend_execution", "lease_revoked", revoked, lambda x: x.suspend()),
    ("suspend_execution", "lease_expired", expired, lambda x: x.suspend()),
    ("suspend_execution", "stale_lease", running, fence(str(uuid.uuid4()))),
    ("suspend_execution", "invalid_lease_for_suspend", running,
     lambda x: x.fcall("ff_suspend_execution", x.filled(17), x.id, 1, x.attempt, x.lease, 1, "s", "w", "k", "", "", "",
                       ANY, "", "", "")),
    ("suspend_execution", "already_suspended", open_while_active, lambda x: x.suspend()),
    ("suspend_execution", "use_pending_with_extras_unsupported", pending,
     lambda x: x.suspend(pending="1", waitpoint=x.waitpoint, extra=("", "", 1, "b", "kb"))),
    ("suspend_execution", "waitpoint_not_found", running, use_pending),
    ("suspend_execution", "waitpoint_not_pending", lambda x: (pending(x), x.close()), use_pending),
    ("suspend_execution", "invalid_waitpoint_for_execution", broken("attempt_index", "1"), use_pending),
    ("suspend_execution", "invalid_waitpoint_for_execution", broken("execution_id", "another"), use_pending),
    ("suspend_execution", "pending_waitpoint_expired", broken("expires_at", "1"), use_pending),
    ("suspend_execution", "waitpoint_not_token_bound", token_lost, use_pending),
    ("suspend_execution", "waitpoint_already_exists", pending, lambda x: x.suspend(waitpoint=x.waitpoint)),
    ("suspend_execution", "hmac_secret_not_initialized", without_a_secret, lambda x: x.suspend()),
    ("suspend_execution", "invalid_secret", with_a_broken_secret, lambda x: x.suspend()),
    ("reject_signals", "invalid_input", told_and_running, lambda x: x.reject()),
    ("reject_signals", "signal_not_rejectable", told_and_running, lambda x: x.reject("another", "no")),
    ("reject_signals", "signal_not_rejectable", told_and_running, lambda x: x.reject("s1", "no", "s1", "no")),
    ("reject_signals", "invalid_input", told_and_running, lambda x: x.reject("s1", "x" * 513)),
    ("reject_signals", "invalid_input", told_and_running, lambda x: x.reject("s1", "no", suspension="a:b")),
    ("reject_signals", "invalid_input", told_and_running, lambda x: x.reject("s1", "no", form="x" * 131_073)),
    ("reject_signals", "signal_not_rejectable", running, lambda x: x.reject("s1", "no")),
    ("reject_signals", "execution_not_found", seeded, lambda x: x.reject("s1", "no")),
    ("reject_signals", "fence_required", told_and_running,
     lambda x: x.fcall("ff_reject_signals", [x.core], x.id, "", "", "", "s", "", "s1", "no")),
    ("reject_signals", "partial_fence_triple", told_and_running, lambda x: x.reject("s1", "no", epoch="")),
    ("reject_signals", "execution_not_active", completed, lambda x: x.reject("s1", "no")),
    ("reject_signals", "execution_not_active", suspended, lambda x: x.reject("s1", "no")),
    ("reject_signals", "lease_revoked", revoked, lambda x: x.reject("s1", "no")),
    ("reject_signals", "lease_expired", expired, lambda x: x.reject("s1", "no")),
    ("reject_signals", "stale_lease", told_and_running, lambda x: x.reject("s1", "no", epoch=7)),
    ("resume_execution", "invalid_input", suspended, lambda x: x.resume("operator", "soon")),
    ("resume_execution", "execution_not_found", nothing, lambda x: x.resume()),
    ("resume_execution", "execution_not_suspended", running, lambda x: x.resume()),
    ("resume_execution", "execution_not_suspended", suspended, lambda x: x.resume("operator", 0, "another")),
    ("expire_suspension", "invalid_input", suspended,
     lambda x: x.fcall("ff_expire_suspension", x.filled(12), "another-id")),
    ("create_pending_waitpoint", "invalid_input", running, lambda x: x.pending("a:b")),
    ("create_pending_waitpoint", "invalid_input", running, make(expires_at=1)),
    ("create_pending_waitpoint", "invalid_input", running, make(expires_at="")),
    ("create_pending_waitpoint", "execution_not_found", seeded, make()),
    ("create_pending_waitpoint", "execution_not_active", suspended, make()),
    ("create_pending_waitpoint", "no_active_lease", unowned, make()),
    ("create_pending_waitpoint", "lease_revoked", revoked, lambda x: x.pending(None, x.lease, 1, x.attempt)),
    ("create_pending_waitpoint", "lease_expired", expired, lambda x: x.pending(None, x.lease, 1, x.attempt)),
    ("create_pending_waitpoint", "partial_fence_triple", running, lambda x: x.pending(None, x.lease)),
    ("create_pending_waitpoint", "stale_lease", running, make(index=1)),
    ("create_pending_waitpoint", "stale_lease", running, lambda x: x.pending(None, x.lease, 2, x.attempt)),
    ("create_pending_waitpoint", "waitpoint_already_exists", pending, lambda x: x.pending(x.waitpoint)),
    ("create_pending_waitpoint", "hmac_secret_not_initialized", without_a_secret, make()),
    ("create_pending_waitpoint", "invalid_secret", with_a_broken_secret, make()),
    ("close_waitpoint", "invalid_input", pending, lambda x: x.close(waitpoint="")),
    ("close_waitpoint", "execution_not_found", nothing, lambda x: x.close(waitpoint="w")),
    ("close_waitpoint", "waitpoint_not_found", running, lambda x: x.close(waitpoint="w")),
    ("close_waitpoint", "waitpoint_not_open", broken("state", "odd"), lambda x: x.close()),
    ("close_waitpoint", "waitpoint_not_pending", suspended, lambda x: x.close()),
    *signals("deliver_signal", "deliver"),
    ("deliver_signal", "waitpoint_pending_use_buffer_script", pending, lambda x: x.deliver()),
    ("deliver_signal", "target_not_signalable", resumed, lambda x: x.deliver()),
    ("deliver_signal", "answer_unchecked", suspended_with_a_form, lambda x: x.deliver("refuse", "keep", "ask")),
    ("deliver_signal", "answer_unchecked", suspended_with_a_form, lambda x: x.deliver("refuse", "keep", "another")),
    *signals("buffer_signal_for_pending_waitpoint", "buffer"),
    ("signal_execution", "invalid_input", suspended, sent("send", name="")),
    ("signal_execution", "invalid_input", suspended, sent("send", signal="a:b")),
    ("signal_execution", "invalid_input", lambda x: (pending(x), x.pending()), sent("send")),
    ("signal_execution", "execution_not_found", seeded, sent("send")),
    ("signal_execution", "payload_too_large", suspended, large("send")),
    ("signal_execution", "target_not_signalable", running, sent("send")),
    ("signal_execution", "target_not_signalable", lambda x: (pending(x), x.complete()), sent("send")),
    ("signal_execution", "signal_limit_exceeded", lambda x: (suspended(x), x.deliver(name="other")),
     sent("send", most=1)),
    ("signal_execution", "answer_unchecked", suspended_with_a_form, lambda x: x.send("ask")),
    ("rotate_waitpoint_hmac_secret", "invalid_input", seeded,
     secret_call("ff_rotate_waitpoint_hmac_secret", "k2", SECRET, 1)),
    ("rotate_waitpoint_hmac_secret", "invalid_input", seeded, lambda x: x.rotate("k2", SECRET, 1, "md5")),
    ("rotate_waitpoint_hmac_secret", "invalid_kid", seeded, lambda x: x.rotate("", SECRET)),
    ("rotate_waitpoint_hmac_secret", "invalid_kid", seeded, lambda x: x.rotate("a:b", SECRET)),
    ("rotate_waitpoint_hmac_secret", "invalid_secret_hex", seeded, lambda x: x.rotate("k2", "abc")),
    ("rotate_waitpoint_hmac_secret", "invalid_secret_hex", seeded, lambda x: x.rotate("k2", "zz")),
    ("rotate_waitpoint_hmac_secret", "invalid_secret_hex", seeded, lambda x: x.rotate("k2", "")),
    ("rotate_waitpoint_hmac_secret", "invalid_grace_ms", seeded, lambda x: x.rotate("k2", SECRET, "")),
    ("rotate_waitpoint_hmac_secret", "invalid_grace_ms", seeded, lambda x: x.rotate("k2", SECRET, -1)),
    ("rotate_waitpoint_hmac_secret", "invalid_grace_ms", seeded, lambda x: x.rotate("k2", SECRET, 2**53)),
    ("rotate_waitpoint_hmac_secret", "invalid_grace_ms", in_grace, lambda x: x.rotate("k3", SECRET, 1, "sha1", "1")),
    ("rotate_waitpoint_hmac_secret", "invalid_input", in_grace, lambda x: x.rotate("k3", SECRET, 0, "sha1", "true")),
    ("rotate_waitpoint_hmac_secret", "rotation_conflict", seeded, lambda x: x.rotate("k1", "cd" * 32)),
    ("rotate_waitpoint_hmac_secret", "rotation_conflict", in_grace,
     lambda x: x.rotate("k1", SECRET, 0, "sha1", "1")),
    ("seed_waitpoint_hmac_secret", "invalid_input", nothing,
     secret_call("ff_seed_waitpoint_hmac_secret", "k2", SECRET)),
    ("seed_waitpoint_hmac_secret", "invalid_kid", nothing, lambda x: x.seed("a:b")),
    ("seed_waitpoint_hmac_secret", "invalid_secret_hex", nothing, lambda x: x.seed("k1", "abc")),
    ("list_waitpoint_hmac_kids", "invalid_input", seeded, secret_call("ff_list_waitpoint_hmac_kids")),
    ("list_suspended", "invalid_input", suspended, partition_call("ff_list_suspended", "", "", "", "", 1001)),
    ("list_suspended", "invalid_input", suspended, partition_call("ff_list_suspended", "", "", FAR, "", 10)),
    ("list_pending_waitpoints", "invalid_input", suspended, lambda x: x.waitpoints(limit=1001)),
    ("list_pending_waitpoints", "execution_not_found", nothing, lambda x: x.waitpoints()),
    ("read_waitpoint_token", "invalid_input", suspended, lambda x: x.read_token("")),
    ("read_waitpoint_token", "execution_not_found", nothing, lambda x: x.read_token("w")),
    ("read_waitpoint_token", "waitpoint_not_found", suspended, lambda x: x.read_token("w")),
    ("read_waitpoint_token", "waitpoint_closed", resumed, lambda x: x.read_token(x.waitpoint)),
    ("read_waitpoint_token", "hmac_secret_not_initialized", suspended_and_then_without_a_secret,
     lambda x: x.read_token(x.waitpoint)),
    ("read_waitpoint_token", "invalid_secret", suspended_and_then_with_a_broken_secret,
     lambda x: x.read_token(x.waitpoint)),
    ("list_resume_signals", "invalid_input", suspended, lambda x: x.resume_signals("", "", 1001)),
    ("list_resume_signals", "execution_not_found", nothing, lambda x: x.resume_signals()),
]  # fmt: skip
