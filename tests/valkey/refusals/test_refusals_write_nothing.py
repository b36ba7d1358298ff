"""Every refusal a header names, provoked on the wire: the store is byte for byte what it was before (G4)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import valkey

from flowfabric.backends.valkey.library.bundle import bundle
from tests.valkey.refusals.flow_refusals import FLOW_SCENARIOS
from tests.valkey.refusals.limit_refusals import ADMISSION_REPEATS, LIMIT_REPEATS, LIMIT_SCENARIOS, note_reservation
from tests.valkey.refusals.stream_refusals import STREAM_SCENARIOS
from tests.valkey.refusals.suspension_refusals import SUSPENSION_SCENARIOS
from tests.valkey.wire.suspension_wire import SECRET, Waiting, all_of, composite, count, named, single
from tests.valkey.wire.wire import Execution, Reply

Step = Callable[[Any], Any]  # of an Execution, or of a Waiting one
GPU = '{"routing_requirements":{"required_capabilities":["gpu"]}}'
FAR = 9_000_000_000_000

# The one refusal that reports a transition: at the cap the execution has failed.
REPORTS_A_TRANSITION = {
    ("reclaim_execution", "max_retries_exhausted"),
    ("issue_reclaim_grant", "max_retries_exhausted"),
}


def nothing(_: Execution) -> None: ...


def created(x: Execution) -> None:
    x.create()


def running(x: Execution) -> None:
    x.run()


def completed(x: Execution) -> None:
    x.run()
    x.complete()


def revoked(x: Execution) -> None:
    x.run()
    x.revoke()


def expired(x: Execution) -> None:
    x.run(ttl=1)
    due = x.client.zscore(x.idx("lease_expiry"), x.id)
    while x.client.time()[0] * 1000 + x.client.time()[1] // 1000 <= due:
        pass


def granted(x: Execution) -> None:
    x.create()
    x.grant()


def needs_gpu(x: Execution) -> None:
    x.create(policy=GPU)


def lost_and_needs_gpu(x: Execution) -> None:
    x.create(policy=GPU)
    x.grant(capabilities="gpu")
    x.claim()
    x.revoke()


def lost_and_granted(x: Execution) -> None:
    revoked(x)
    x.reclaim_grant()


def delayed(x: Execution) -> None:
    x.create(delay_until=FAR)


def interrupted(x: Execution) -> None:
    x.run()
    x.delay(1)


def stranger(step: Callable[..., Reply]) -> Step:
    """The call of somebody whose lease is another one."""

    def call(x: Execution) -> Reply:
        x.lease = str(uuid.uuid4())
        return step(x)

    return call


def out_of_queue(x: Execution) -> None:
    x.create()
    x.client.zrem(x.lane_idx("eligible"), x.id)


def owned_but_runnable(x: Execution) -> None:
    """Cannot be reached through functions; the guard is there for broken records."""
    granted(x)
    x.client.hset(x.core, "ownership_state", "leased")


def runs_but_runnable(x: Execution) -> None:
    granted(x)
    x.client.hset(x.core, "attempt_state", "running_attempt")


def owned_without_a_grant(x: Execution) -> None:
    created(x)
    x.client.hset(x.core, "ownership_state", "leased")


def runs_without_a_grant(x: Execution) -> None:
    created(x)
    x.client.hset(x.core, "attempt_state", "running_attempt")


def unowned_but_active(x: Execution) -> None:
    x.run()
    x.client.hset(x.core, "ownership_state", "unowned")


def expiring_grant(x: Execution) -> None:
    x.create()
    x.grant()
    x.client.hset(x.exec("claim_grant"), "grant_expires_at", 1)


def interrupted_with_expiring_grant(x: Execution) -> None:
    interrupted(x)
    x.grant()
    x.client.hset(x.exec("claim_grant"), "grant_expires_at", 1)


def full_lane(arrange: Step) -> Step:
    """The lane may run one execution, and runs another one than this."""

    def run(x: Execution) -> None:
        arrange(x)
        Execution(x.client).run()
        x.fcall("ff_configure_lane", [f"ff:lane:{x.tag}:default:config"], "default", 1, 1)

    return run


def known_key(x: Execution) -> None:
    """Its idempotency key belongs to another execution that waits."""
    Execution(x.client).create(idem="once", ttl=60_000)


def submit_again(
    x: Execution, mode: str = "reject", *, idem: str = "once", lane: str = "default", policy: str = ""
) -> Reply:
    idempotency = f"ff:idem:{x.tag}:ns:{idem}" if idem else f"ff:noop:{x.tag}"
    keys = [x.core, *[f"ff:noop:{x.tag}"] * 4, idempotency, *[f"ff:noop:{x.tag}"] * 2]
    return x.fcall("ff_create_execution", keys, x.id, "ns", lane, "kind", 0, "", policy, "", "", 60_000, "", "", 7, "",
                   mode)  # fmt: skip


def lane_call(function: str, *args: object) -> Step:
    return lambda x: x.fcall(function, [f"ff:lane:{x.tag}:default:config"], *args)


def replayed_out(x: Execution) -> None:
    x.create(policy='{"max_replay_count":0}')
    x.cancel()


def fenced(
    name: str, call: Callable[..., Reply], *, partial: Step, unfenced: Step
) -> list[tuple[str, str, Step, Step]]:
    """What every fenced call refuses."""
    return [
        (name, "execution_not_found", nothing, call),
        (name, "fence_required", running, unfenced),
        (name, "partial_fence_triple", running, partial),
        (name, "execution_not_active", completed, call),
        (name, "lease_revoked", revoked, call),
        (name, "lease_expired", expired, call),
        (name, "stale_lease", running, stranger(call)),
    ]


def block_for_budget(x: Execution) -> Reply:
    return x.block("waiting_for_budget", "budget")


def raw(function: str, keys: int, *args: object) -> Step:
    """The function with its core key and these arguments after the id; `L`, `A` stand for lease and attempt."""

    def run(x: Execution) -> Reply:
        names = {"L": x.lease, "A": x.attempt}
        given = [names.get(arg, arg) if isinstance(arg, str) else arg for arg in args]
        return x.fcall(function, [x.core, *[f"ff:noop:{x.tag}"] * (keys - 1)], x.id, *given)

    return run


def record_step(x: Execution) -> Reply:
    return raw("ff_record_step", 1, "L", 1, "A", "charge", 0, "", "", "paid")(x)


def append_logs(text: str) -> Step:
    """A record of an attempt that is not the caller's."""
    entries = msgspec.msgpack.encode([(1_000, 20, "app", text)])
    return raw("ff_append_logs", 1, 0, "another", "w", 0, 10, 1_000_000, 1_000, entries)


def all_steps_taken(x: Execution) -> None:
    x.run()
    x.client.hset(x.core, "step_count", 10_000)


def partition_call(function: str, *args: object) -> Step:
    return lambda x: x.fcall(function, [f"ff:part:{x.tag}:events"], *args)


def worker_call(function: str, keys: int, *args: object, name: str = "ns:w-1") -> Step:
    """The function with the same key of one worker in every position."""
    return lambda x: x.fcall(function, [f"ff:worker:{{workers}}:{name}:caps"] * keys, *args)


def waiting_for(tree: dict[str, Any], *others: object, version: int = 1, pending: str = "") -> Step:
    """Suspend at waitpoint `a` and the others, ids and keys in turn; "?" stands for the pending one."""

    def call(x: Waiting) -> Reply:
        rest = [x.waitpoint if each == "?" else each for each in others]
        bindings = ("", "", len(rest) // 2, *rest)
        return x.suspend(composite(tree, version), waitpoint="a", key="a", pending=pending, extra=bindings)

    return call


def has_run(x: Waiting) -> None:
    x.started()


def has_a_pending_waitpoint(x: Waiting) -> None:
    has_run(x)
    x.pending()


def nested(levels: int) -> dict[str, Any]:
    return all_of(nested(levels - 1)) if levels else count(1, "DistinctSignals", ["a"])


# What is wrong with the last of several waitpoints, or deep in a tree, is seen before the first one is made.
COMPOSITE_SCENARIOS: list[tuple[str, str, Any, Any]] = [
    ("suspend_execution", code, arrange, call)
    for code, arrange, call in [
        ("invalid_input", has_run, waiting_for(single("a"), version=2)),
        ("invalid_input", has_run, waiting_for(all_of(single("a"), all_of()))),
        ("invalid_input", has_run, waiting_for(all_of(single("a"), single("b")))),
        ("invalid_input", has_run, waiting_for(count(3, "DistinctWaitpoints", ["a", "b"]), "b", "b")),
        ("invalid_input", has_run, waiting_for(count(0, "DistinctSources", ["a"]))),
        ("invalid_input", has_run, waiting_for(all_of(single("a", "__timeout__")))),
        ("invalid_input", has_run, waiting_for(nested(4))),
        ("additional_waitpoint_binding_malformed", has_run, waiting_for(single("a"), "b", "b", "c", "")),
        ("waitpoint_already_exists", has_a_pending_waitpoint, waiting_for(single("a"), "b", "b", "?", "c")),
        ("waitpoint_not_found", has_run, waiting_for(single("a"), "b", "b", "c", "", pending="by_key")),
        ("waitpoint_not_pending", lambda x: (has_a_pending_waitpoint(x), x.close()),
         waiting_for(single("a"), "b", "b", "?", "", pending="by_key")),
    ]
]  # fmt: skip


register = worker_call("ff_register_worker", 3, "w-1", "w", "default", "", 30_000)


SCENARIOS: list[tuple[str, str, Step, Step]] = [
    ("create_execution", "invalid_input", nothing, lambda x: x.create(priority="high")),
    ("create_execution", "invalid_policy_json", nothing, lambda x: x.create(policy="{")),
    ("create_execution", "invalid_capabilities", nothing,
     lambda x: x.create(policy='{"routing_requirements":{"required_capabilities":[""]}}')),
    ("create_execution", "invalid_input", known_key, lambda x: submit_again(x, "overwrite")),
    ("create_execution", "invalid_input", nothing, lambda x: submit_again(x, "replace_while_waiting", idem="")),
    ("create_execution", "invalid_input", nothing, lambda x: submit_again(x, "debounce")),
    ("create_execution", "invalid_input", known_key,
     lambda x: submit_again(x, "replace_while_waiting", lane="other")),
    ("create_execution", "invalid_policy_json", known_key,
     lambda x: submit_again(x, "replace_while_waiting", policy="{")),
    ("create_execution", "execution_already_exists", known_key, submit_again),
    ("issue_claim_grant", "invalid_input", created, lambda x: x.grant(ttl=0)),
    ("issue_claim_grant", "concurrency_limit_exceeded", full_lane(created), lambda x: x.grant()),
    ("claim_execution", "concurrency_limit_exceeded", full_lane(granted), lambda x: x.claim()),
    ("claim_resumed_execution", "concurrency_limit_exceeded", full_lane(interrupted), lambda x: x.claim_resumed()),
    ("issue_grant_and_claim", "concurrency_limit_exceeded", full_lane(created), lambda x: x.grant_and_claim()),
    ("configure_lane", "invalid_input", created, lane_call("ff_configure_lane", "default", 5)),
    ("configure_lane", "invalid_input", created, lane_call("ff_configure_lane", "other", 5, 5)),
    ("settle_lane", "invalid_input", created, partition_call("ff_settle_lane", "default", "somewhere", 10)),
    ("settle_lane", "invalid_input", created, partition_call("ff_settle_lane", "default", "", 1001)),
    ("list_lanes", "invalid_input", created, partition_call("ff_list_lanes", "", 1002)),
    ("scan_eligible_executions", "invalid_input", created,
     partition_call("ff_scan_eligible_executions", "default", 1001)),
    ("claim_for_worker", "invalid_input", created, partition_call("ff_claim_for_worker", "default", "w", "wi", "", 0)),
    ("explain_execution", "execution_not_found", nothing, raw("ff_explain_execution", 1)),
    ("issue_claim_grant", "execution_not_found", nothing, lambda x: x.grant()),
    ("issue_claim_grant", "execution_not_eligible", delayed, lambda x: x.grant()),
    ("issue_claim_grant", "grant_already_exists", granted, lambda x: x.grant()),
    ("issue_claim_grant", "execution_not_in_eligible_set", out_of_queue, lambda x: x.grant()),
    ("issue_claim_grant", "invalid_capabilities", created, lambda x: x.grant(capabilities="x" * 5000)),
    ("issue_claim_grant", "capability_mismatch", needs_gpu, lambda x: x.grant()),
    ("claim_execution", "invalid_input", granted, lambda x: x.claim(ttl=0)),
    ("claim_execution", "execution_not_found", nothing, lambda x: x.claim()),
    ("claim_execution", "execution_not_leaseable", delayed, lambda x: x.claim()),
    ("claim_execution", "lease_conflict", owned_but_runnable, lambda x: x.claim()),
    ("claim_execution", "active_attempt_exists", runs_but_runnable, lambda x: x.claim()),
    ("claim_execution", "use_claim_resumed_execution", interrupted, lambda x: x.claim()),
    ("claim_execution", "invalid_claim_grant", created, lambda x: x.claim()),
    ("claim_execution", "claim_grant_expired", expiring_grant, lambda x: x.claim()),
    ("claim_resumed_execution", "invalid_input", interrupted, lambda x: x.claim_resumed("soon")),
    ("claim_resumed_execution", "execution_not_found", nothing, lambda x: x.claim_resumed()),
    ("claim_resumed_execution", "execution_not_leaseable", completed, lambda x: x.claim_resumed()),
    ("claim_resumed_execution", "not_a_resumed_execution", created, lambda x: x.claim_resumed()),
    ("claim_resumed_execution", "invalid_claim_grant", interrupted, lambda x: x.claim_resumed()),
    ("claim_resumed_execution", "claim_grant_expired", interrupted_with_expiring_grant, lambda x: x.claim_resumed()),
    ("issue_grant_and_claim", "invalid_input", created,
     raw("ff_issue_grant_and_claim", 11, "w", "wi", "default", "", "L", "x", "A", "", "", "")),
    ("issue_grant_and_claim", "execution_not_found", nothing, lambda x: x.grant_and_claim()),
    ("issue_grant_and_claim", "execution_not_eligible", completed, lambda x: x.grant_and_claim()),
    ("issue_grant_and_claim", "lease_conflict", owned_without_a_grant, lambda x: x.grant_and_claim()),
    ("issue_grant_and_claim", "active_attempt_exists", runs_without_a_grant, lambda x: x.grant_and_claim()),
    ("issue_grant_and_claim", "grant_already_exists", granted, lambda x: x.grant_and_claim()),
    ("issue_grant_and_claim", "execution_not_in_eligible_set", out_of_queue, lambda x: x.grant_and_claim()),
    ("issue_grant_and_claim", "invalid_capabilities", created, lambda x: x.grant_and_claim("x" * 5000)),
    ("issue_grant_and_claim", "capability_mismatch", needs_gpu, lambda x: x.grant_and_claim()),
    *fenced("complete_execution", lambda x: x.complete(),
            partial=lambda x: x.complete(lease=""), unfenced=lambda x: x.complete(lease="", epoch="", attempt="")),
    *fenced("fail_execution", lambda x: x.fail(),
            partial=raw("ff_fail_execution", 12, "", 1, "A", "r", "c", ""),
            unfenced=raw("ff_fail_execution", 12, "", "", "", "r", "c", "")),
    ("fail_execution", "invalid_input", running, lambda x: x.fail(extra=("", "soon"))),
    *fenced("delay_execution", lambda x: x.delay(FAR),
            partial=raw("ff_delay_execution", 9, "", 1, "A", FAR),
            unfenced=raw("ff_delay_execution", 9, "", "", "", FAR)),
    ("delay_execution", "invalid_input", running, lambda x: x.delay("")),
    *fenced("move_to_waiting_children", lambda x: x.move_to_waiting_children(),
            partial=raw("ff_move_to_waiting_children", 9, "", 1, "A"),
            unfenced=raw("ff_move_to_waiting_children", 9, "", "", "")),
    ("move_to_waiting_children", "not_blocked_by_deps", running, lambda x: x.move_to_waiting_children("", "1")),
    *fenced("renew_lease", lambda x: x.renew(),
            partial=raw("ff_renew_lease", 4, 0, "A", "", 1, 1000, 5000),
            unfenced=raw("ff_renew_lease", 4, 0, "", "", "", 1000, 5000)),
    ("renew_lease", "invalid_input", running, lambda x: x.renew(ttl=0)),
    ("cancel_execution", "execution_not_found", nothing, lambda x: x.cancel()),
    ("cancel_execution", "execution_not_active", completed, lambda x: x.cancel()),
    ("cancel_execution", "fence_required", running, lambda x: x.cancel("lease_holder")),
    ("cancel_execution", "lease_revoked", revoked, lambda x: x.cancel("lease_holder", lease=x.lease, epoch=1)),
    ("cancel_execution", "lease_expired", expired, lambda x: x.cancel("lease_holder", lease=x.lease, epoch=1)),
    ("cancel_execution", "stale_lease", running, lambda x: x.cancel("lease_holder", lease=x.lease, epoch=2)),
    ("expire_execution", "invalid_input", created, lambda x: x.fcall("ff_expire_execution", [], x.id)),
    ("mark_lease_expired_if_due", "invalid_input", running,
     lambda x: x.fcall("ff_mark_lease_expired_if_due", [x.core] * 4, "another-id")),
    ("revoke_lease", "execution_not_found", nothing, lambda x: x.revoke()),
    ("revoke_lease", "execution_not_active", created, lambda x: x.revoke()),
    ("revoke_lease", "no_active_lease", unowned_but_active, lambda x: x.revoke()),
    ("revoke_lease", "stale_lease", running, lambda x: x.revoke("another-lease")),
    ("issue_reclaim_grant", "invalid_input", revoked, lambda x: x.reclaim_grant(ttl="")),
    ("issue_reclaim_grant", "execution_not_found", nothing, lambda x: x.reclaim_grant()),
    ("issue_reclaim_grant", "execution_not_reclaimable", running, lambda x: x.reclaim_grant()),
    ("issue_reclaim_grant", "grant_already_exists", lost_and_granted, lambda x: x.reclaim_grant()),
    ("issue_reclaim_grant", "invalid_capabilities", revoked, lambda x: x.reclaim_grant(capabilities="x" * 5000)),
    ("issue_reclaim_grant", "capability_mismatch", lost_and_needs_gpu, lambda x: x.reclaim_grant()),
    ("reclaim_execution", "invalid_input", lost_and_granted, lambda x: x.reclaim("many")),
    ("reclaim_execution", "execution_not_found", nothing, lambda x: x.reclaim()),
    ("reclaim_execution", "execution_not_reclaimable", running, lambda x: x.reclaim()),
    ("reclaim_execution", "invalid_claim_grant", revoked, lambda x: x.reclaim()),
    ("change_priority", "invalid_input", created, lambda x: x.change_priority("")),
    ("change_priority", "execution_not_found", nothing, lambda x: x.change_priority(1)),
    ("change_priority", "execution_not_eligible", delayed, lambda x: x.change_priority(1)),
    ("update_progress", "invalid_input", running, lambda x: x.progress("half")),
    ("update_progress", "execution_not_found", nothing, lambda x: x.progress(1)),
    ("update_progress", "execution_not_active", completed, lambda x: x.progress(1)),
    ("update_progress", "lease_revoked", revoked, lambda x: x.progress(1)),
    ("update_progress", "lease_expired", expired, lambda x: x.progress(1)),
    ("update_progress", "stale_lease", running, stranger(lambda x: x.progress(1))),
    *fenced("record_step", record_step,
            partial=raw("ff_record_step", 1, "", 1, "A", "charge", 0, ""),
            unfenced=raw("ff_record_step", 1, "", "", "", "charge", 0, "")),
    ("record_step", "invalid_input", running,
     raw("ff_record_step", 1, "L", 1, "A", "charge", 0, "", "", "x" * 262_145)),
    ("record_step", "invalid_input", running, raw("ff_record_step", 1, "L", 1, "A", "charge", 10_000, "")),
    ("record_step", "invalid_input", all_steps_taken, record_step),
    ("read_steps", "invalid_input", created, raw("ff_read_steps", 1, 0, 1001)),
    ("read_steps", "execution_not_found", nothing, raw("ff_read_steps", 1, 0, 10)),
    ("append_logs", "invalid_input", running, raw("ff_append_logs", 1, 0, "A", "w", 0, 10, 1_000_000, 1_000, b"\xc1")),
    ("append_logs", "invalid_input", running, append_logs("x" * 8_193)),
    ("append_logs", "execution_not_found", nothing, append_logs("one")),
    ("append_logs", "stale_owner_cannot_append", running, append_logs("one")),
    ("read_logs", "invalid_input", created, raw("ff_read_logs", 1, "soon")),
    ("read_logs", "execution_not_found", nothing, raw("ff_read_logs", 1)),
    ("promote_delayed", "invalid_input", delayed, lambda x: x.promote("later")),
    ("block_execution_for_admission", "invalid_input", created, lambda x: x.block("waiting_for_budget", "budget", "")),
    ("block_execution_for_admission", "execution_not_found", nothing, block_for_budget),
    ("block_execution_for_admission", "execution_not_active", completed, block_for_budget),
    ("block_execution_for_admission", "execution_not_eligible", running, block_for_budget),
    ("block_execution_for_admission", "invalid_blocking_reason", created, lambda x: x.block("moody", "budget")),
    ("unblock_execution", "invalid_input", created, lambda x: x.unblock("budget", now="")),
    ("unblock_execution", "execution_not_found", nothing, lambda x: x.unblock("budget")),
    ("unblock_execution", "execution_not_eligible", created, lambda x: x.unblock("budget")),
    ("replay_execution", "execution_not_found", nothing, lambda x: x.replay()),
    ("replay_execution", "execution_not_terminal", running, lambda x: x.replay()),
    ("replay_execution", "max_replays_exhausted", replayed_out, lambda x: x.replay()),
    ("retry_execution", "execution_not_found", nothing, lambda x: x.retry()),
    ("retry_execution", "execution_not_terminal", running, lambda x: x.retry()),
    ("retry_execution", "retry_not_allowed", completed, lambda x: x.retry()),
    ("fork_execution", "execution_not_found", nothing, lambda x: x.fork(x.id[:-1] + "0")),
    ("fork_execution", "fork_not_allowed", running, lambda x: x.fork(x.id[:-4] + "f00d")),
    ("fork_execution", "invalid_input", completed, lambda x: x.fork(x.id[:-4] + "f00d", "plan")),
    ("set_execution_tags", "invalid_input", created, lambda x: x.set_tags("team.a")),
    ("set_execution_tags", "execution_not_found", nothing, lambda x: x.set_tags("team.a", "1")),
    ("set_execution_tags", "invalid_tag_key", created, lambda x: x.set_tags("team.a", "1", "bad\n", "2")),
    ("watch_execution", "invalid_input", created, lambda x: x.watch("somebody")),
    ("watch_execution", "execution_not_found", nothing, lambda x: x.watch("{fp:0}:0-1")),
    ("watched_ends", "invalid_input", created, partition_call("ff_watched_ends", 0)),
    ("set_lane_state", "invalid_input", nothing,
     lambda x: x.fcall("ff_set_lane_state", [f"ff:lane:{x.tag}:default:config"], "asleep")),
    ("submit_batch", "invalid_input", created, partition_call("ff_submit_batch", b"\xc1")),
    ("claim_batch", "invalid_input", created, partition_call("ff_claim_batch", b"\x80")),
    ("finish_batch", "invalid_input", running, partition_call("ff_finish_batch", b"\x90", b"\x90", b"\x80")),
    ("due_batch", "invalid_input", running, partition_call("ff_due_batch", 1001)),
    ("describe_execution", "execution_not_found", nothing, raw("ff_describe_execution", 1)),
    ("read_execution_context", "execution_not_found", nothing, raw("ff_read_execution_context", 1)),
    ("get_execution_result", "execution_not_found", nothing, raw("ff_get_execution_result", 1)),
    ("list_attempts", "invalid_input", created, raw("ff_list_attempts", 1, 0, 1001)),
    ("list_attempts", "execution_not_found", nothing, raw("ff_list_attempts", 1, 0, 10)),
    ("read_events", "invalid_input", created, raw("ff_read_events", 1, "", "", "", "", "first", 10)),
    ("list_event_owners", "invalid_input", created, partition_call("ff_list_event_owners", "created")),
    ("announce_work", "invalid_input", created, raw("ff_announce_work", 1)),
    ("register_worker", "invalid_input", nothing,
     worker_call("ff_register_worker", 3, "w-2", "w", "default", "", 30_000)),
    ("register_worker", "worker_instance_in_use", register,
     worker_call("ff_register_worker", 3, "w-1", "another", "default", "", 30_000)),
    ("heartbeat_worker", "invalid_input", register, worker_call("ff_heartbeat_worker", 2, name="no_namespace")),
    ("mark_worker_dead", "invalid_input", register, worker_call("ff_mark_worker_dead", 3, name="no_namespace")),
    ("expire_workers", "invalid_input", register, worker_call("ff_expire_workers", 1, 10)),
    ("register_worker", "invalid_input", nothing,
     worker_call("ff_register_worker", 3, "w-1", "w", "default", "", 30_000, 0, "", "", 0, b"\xc1")),
    ("register_worker", "invalid_input", nothing,
     worker_call("ff_register_worker", 3, "w-1", "w", "default", "", 30_000, 0, "", "", 0,
                 msgspec.msgpack.encode([("greet", "x" * 4_097)]))),
    ("list_tasks", "invalid_input", register, worker_call("ff_list_tasks", 1, "default")),
    ("list_workers", "invalid_input", register, worker_call("ff_list_workers", 1, "", "", 10)),
    ("hold_share", "invalid_input", nothing,
     lambda x: x.fcall("ff_hold_share", ["ff:engine:{engines}:shares"], "engine-1", 0)),
    ("next_due", "invalid_input", running, raw("ff_next_due", 1)),
    ("repair_indexes", "invalid_input", running,
     partition_call("ff_repair_indexes", "", "key", "first", "id", 10)),
    ("reevaluate_blocked", "invalid_input", running, partition_call("ff_reevaluate_blocked", "", "", "", "", 1001)),
    ("list_executions", "invalid_input", created,
     lambda x: x.fcall("ff_list_executions", [f"ff:part:{x.tag}:events"], "", "", "", "", "best", "", "", "", "", 10)),
    ("count_executions", "invalid_input", created,
     lambda x: x.fcall("ff_count_executions", [f"ff:part:{x.tag}:events"], "", "", 1001)),
    ("trim_executions", "invalid_input", completed,
     lambda x: x.fcall("ff_trim_executions", [f"ff:part:{x.tag}:events"], "", 0, 0, "", "", "", 10)),
    ("within", "invalid_input", running, lambda x: x.fcall("ff_within", [x.core], 1, "ns", "ff_trim_executions")),
    ("look_within", "invalid_input", running, lambda x: x.fcall("ff_look_within", [x.core], "x")),
    *STREAM_SCENARIOS,
    *SUSPENSION_SCENARIOS,
    *FLOW_SCENARIOS,
    *LIMIT_SCENARIOS,
    *fenced("note_reservation", note_reservation,
            partial=raw("ff_note_reservation", 1, "L", "", "", "b"),
            unfenced=raw("ff_note_reservation", 1, "", "", "", "b")),
    ("note_reservation", "invalid_input", running, raw("ff_note_reservation", 1, "L", 1, "A", "a b")),
    *COMPOSITE_SCENARIOS,
]  # fmt: skip


def found(wire: valkey.Valkey, x: Execution, arrange: Step, call: Step) -> tuple[Reply, bool]:
    """The reply, in a store that has nothing else, and whether anything was written."""
    wire.flushall()
    arrange(x)
    before = dump(wire)
    return call(x), dump(wire) != before


def test_a_refusal_writes_nothing(wire: valkey.Valkey) -> None:
    wrong = []
    for operation, code, arrange, call in SCENARIOS:
        reply, was_written = found(wire, Waiting(wire), arrange, call)
        if reply[:2] != [0, code] or was_written:
            wrong.append(f"{operation}, {code}: {reply}, written: {was_written}")
    assert not wrong, "\n".join(wrong)


def test_every_refusal_of_every_header_is_provoked() -> None:
    named = {(name, code) for name, spec in bundle().functions.items() for code in spec.errors}
    assert named - REPORTS_A_TRANSITION == {(operation, code) for operation, code, _, _ in SCENARIOS}


def suspended(x: Waiting) -> None:
    x.started()
    x.suspend(named("approval"), suspension="s", waitpoint="w")


def told(x: Waiting) -> None:
    """A signal was accepted that did not suffice."""
    suspended(x)
    x.deliver(signal="s1", name="other", idem="once")


def rejected(x: Waiting) -> None:
    """The signal that ended the wait was rejected."""
    suspended(x)
    x.deliver(signal="s1")
    x.go_on().reject("s1", "no", suspension="again")


# A call that finds its work done is answered, and that is all it does.
REPEATS: list[tuple[str, Any, Callable[[Waiting], Reply]]] = [
    ("suspend_execution", suspended, lambda x: x.suspend(named("approval"), suspension="s", waitpoint="w")),
    ("reject_signals", rejected, lambda x: x.reject("s1", "no", suspension="again")),
    ("deliver_signal", told, lambda x: x.deliver(signal="s1")),
    ("deliver_signal", told, lambda x: x.deliver(idem="once")),
    ("deliver_signal", lambda x: (told(x), x.deliver()), lambda x: x.deliver(signal="s1")),
    ("buffer_signal_for_pending_waitpoint", told, lambda x: x.buffer(idem="once")),
    ("signal_execution", told, lambda x: x.send(signal="s1")),
    ("expire_suspension", suspended, lambda x: x.expire_suspension()),
    ("create_pending_waitpoint", lambda x: (x.started(), x.pending("w", x.lease, 1, x.attempt)),
     lambda x: x.pending("w", x.lease, 1, x.attempt)),
    ("close_waitpoint", lambda x: (suspended(x), x.cancel()), lambda x: x.close("operator_override")),
    ("record_step", lambda x: (x.run(), record_step(x)), record_step),
    ("seed_waitpoint_hmac_secret", lambda x: x.seed(), lambda x: x.seed("k2", "cd" * 32)),
    ("rotate_waitpoint_hmac_secret", lambda x: x.seed(), lambda x: x.rotate("k1", SECRET)),
    ("note_reservation", lambda x: (x.run(), note_reservation(x)), note_reservation),
    *LIMIT_REPEATS,
]  # fmt: skip


def test_an_answer_to_a_repeat_writes_nothing(wire: valkey.Valkey) -> None:
    wrong = []
    for operation, arrange, call in REPEATS:
        reply, was_written = found(wire, Waiting(wire), arrange, call)
        if reply[0] != 1 or was_written:
            wrong.append(f"{operation}: {reply}, written: {was_written}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("status", "arrange", "call"), ADMISSION_REPEATS, ids=["again", "full"])
def test_who_is_admitted_or_finds_no_slot_writes_nothing(
    wire: valkey.Valkey, status: str, arrange: Step, call: Callable[[Execution], Reply]
) -> None:
    x = Execution(wire)
    arrange(x)
    before = dump(wire)
    assert call(x)[0] == status
    assert dump(wire) == before


NUMBERS = [(spec.operation, arg.name) for spec in bundle().functions.values() for arg in spec.args if arg.is_number]


@pytest.mark.parametrize("text", ["x", "1.5", "-99999999999999", "nan"])
def test_every_number_is_validated_before_anything_is_written(wire: valkey.Valkey, text: str) -> None:
    """A malformed number is refused by its name, never a script error."""
    x = Execution(wire).run()
    before = dump(wire)
    wrong = []
    for operation, name in NUMBERS:
        spec = bundle().functions[operation]
        args = [text if arg.name == name else "1" if arg.is_number else "text" for arg in spec.args if not arg.rest]
        if not spec.args[0].is_number:
            args[0] = x.id
        reply = x.fcall(spec.function, [x.core, *[f"ff:noop:{x.tag}"] * (len(spec.keys) - 1)], *args)
        if reply[:2] != [0, "invalid_input"] or not reply[2].startswith(f"{name}: expected"):
            wrong.append(f"{operation}, {name}: {reply}")
        if dump(wire) != before:
            wrong.append(f"{operation}, {name}: something was written")
            before = dump(wire)
    assert not wrong, "\n".join(wrong)


def dump(client: Any) -> dict[bytes, object]:
    return {key: client.dump(key) for key in client.keys("*")}
