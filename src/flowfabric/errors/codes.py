"""Every error code with its family, its class and its default message.

The code is the same string in Lua, SQL, REST, the CLI and the docs.
"""

from __future__ import annotations

from enum import StrEnum

from flowfabric.errors.families import CodeInfo, ErrorClass, Family

_F, _C = Family, ErrorClass

CODES: dict[str, CodeInfo] = {
    # ownership of the running attempt
    "stale_lease": CodeInfo(_F.CONFLICT, _C.TERMINAL, "another lease owns the execution; stop working on it"),
    "lease_expired": CodeInfo(
        _F.CONFLICT, _C.TERMINAL, "the lease expired before the call; stop, the execution will be reclaimed"
    ),
    "lease_revoked": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the lease was revoked; stop working on the execution"),
    "execution_not_active": CodeInfo(_F.CONFLICT, _C.TERMINAL, "no attempt is running"),
    "no_active_lease": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "no lease is held"),
    "fence_required": CodeInfo(
        _F.INVALID, _C.TERMINAL, "pass lease_id, lease_epoch and attempt_id, or source=operator_override"
    ),
    "partial_fence_triple": CodeInfo(
        _F.INVALID, _C.TERMINAL, "pass lease_id, lease_epoch and attempt_id together, or none of them"
    ),
    "active_attempt_exists": CodeInfo(_F.CONFLICT, _C.BUG, "an attempt is already running"),
    # claiming
    "use_claim_resumed_execution": CodeInfo(
        _F.CONFLICT, _C.RETRYABLE, "an attempt was interrupted; claim it with claim_resumed_execution"
    ),
    "not_a_resumed_execution": CodeInfo(
        _F.CONFLICT, _C.RETRYABLE, "no attempt was interrupted; claim it with claim_execution"
    ),
    "execution_not_leaseable": CodeInfo(
        _F.CONFLICT, _C.RETRYABLE, "the execution cannot be claimed in its current state"
    ),
    "lease_conflict": CodeInfo(_F.CONFLICT, _C.RETRYABLE, "another worker holds the lease"),
    "invalid_claim_grant": CodeInfo(
        _F.CONFLICT, _C.RETRYABLE, "this worker has no grant for the execution; request one"
    ),
    "claim_grant_expired": CodeInfo(_F.CONFLICT, _C.RETRYABLE, "the claim grant expired; request a new one"),
    "no_eligible_execution": CodeInfo(_F.NOT_FOUND, _C.RETRYABLE, "nothing to claim"),
    "execution_not_eligible": CodeInfo(
        _F.CONFLICT, _C.INFORMATIONAL, "the execution is not eligible in its current state"
    ),
    "execution_not_in_eligible_set": CodeInfo(
        _F.CONFLICT, _C.INFORMATIONAL, "the execution is not in the queue of its lane"
    ),
    "grant_already_exists": CodeInfo(
        _F.CONFLICT, _C.INFORMATIONAL, "a claim grant is already open; wait until it is used or expires"
    ),
    "execution_not_reclaimable": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the lease is neither expired nor revoked"),
    "capability_mismatch": CodeInfo(_F.CONFLICT, _C.RETRYABLE, "the worker lacks required capabilities"),
    # the execution as a whole
    "execution_not_found": CodeInfo(_F.NOT_FOUND, _C.TERMINAL, "no such execution"),
    "execution_already_exists": CodeInfo(
        _F.CONFLICT, _C.TERMINAL, "the idempotency key belongs to another execution; use that one, or another key"
    ),
    "execution_not_terminal": CodeInfo(
        _F.CONFLICT, _C.TERMINAL, "the execution has not ended; wait for its end or cancel it first"
    ),
    "max_replays_exhausted": CodeInfo(_F.LIMITED, _C.TERMINAL, "max_replay_count is used up"),
    "max_retries_exhausted": CodeInfo(
        _F.LIMITED, _C.TERMINAL, "max_reclaim_count is used up; the execution has failed"
    ),
    "replay_not_allowed": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the execution cannot be replayed"),
    "fork_not_allowed": CodeInfo(
        _F.CONFLICT, _C.TERMINAL, "the execution is running; fork it when it waits or has ended, or cancel it first"
    ),
    "retry_not_allowed": CodeInfo(
        _F.CONFLICT,
        _C.TERMINAL,
        "only failed, expired and cancelled executions can be retried; replay a completed one to run it again from its "
        "beginning, and retry what a skipped one depends on",
    ),
    "execution_not_eligible_for_attempt": CodeInfo(
        _F.CONFLICT, _C.TERMINAL, "no attempt can start in the current state"
    ),
    "attempt_not_found": CodeInfo(_F.NOT_FOUND, _C.TERMINAL, "no such attempt"),
    "attempt_not_in_created_state": CodeInfo(_F.INTERNAL, _C.BUG, "the attempt was started twice"),
    "attempt_not_started": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the attempt has not started"),
    "attempt_already_terminal": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the attempt has ended"),
    "invalid_blocking_reason": CodeInfo(_F.INVALID, _C.TERMINAL, "unknown blocking reason"),
    # bad input
    "invalid_input": CodeInfo(_F.INVALID, _C.TERMINAL, "an argument is missing or malformed"),
    "invalid_args": CodeInfo(_F.INVALID, _C.TERMINAL, "an argument is missing"),
    "invalid_policy_json": CodeInfo(_F.INVALID, _C.TERMINAL, "the execution policy is malformed"),
    "invalid_capabilities": CodeInfo(_F.INVALID, _C.TERMINAL, "a capability token breaks the grammar"),
    "invalid_tag_key": CodeInfo(_F.INVALID, _C.TERMINAL, "a tag's name must be printable text of 1 to 128 bytes"),
    "payload_too_large": CodeInfo(_F.INVALID, _C.TERMINAL, "the payload is over its limit"),
    "unauthorized": CodeInfo(_F.INVALID, _C.TERMINAL, "not allowed"),
    "forbidden": CodeInfo(_F.INVALID, _C.TERMINAL, "the token does not permit this operation"),
    "route_not_found": CodeInfo(_F.NOT_FOUND, _C.TERMINAL, "the server has no such route"),
    "method_not_allowed": CodeInfo(_F.INVALID, _C.TERMINAL, "the route does not accept this method"),
    "headers_too_large": CodeInfo(_F.INVALID, _C.TERMINAL, "the request line or the headers are over the limit"),
    "request_timeout": CodeInfo(_F.INVALID, _C.RETRYABLE, "the request took too long to arrive"),
    "too_many_connections": CodeInfo(
        _F.LIMITED, _C.RETRYABLE, "the connection limit of the server or of the client address is reached"
    ),
    # suspension, waitpoints, signals
    "execution_not_suspended": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the execution is not suspended"),
    "already_suspended": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the execution is already suspended"),
    "waitpoint_closed": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the waitpoint is closed"),
    "waitpoint_not_found": CodeInfo(_F.NOT_FOUND, _C.RETRYABLE, "no such waitpoint"),
    "target_not_signalable": CodeInfo(_F.CONFLICT, _C.TERMINAL, "no open waitpoint accepts the signal"),
    "waitpoint_pending_use_buffer_script": CodeInfo(
        _F.CONFLICT, _C.RETRYABLE, "the waitpoint is pending; buffer the signal"
    ),
    "duplicate_signal": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the signal was already delivered"),
    "signal_limit_exceeded": CodeInfo(
        _F.LIMITED, _C.TERMINAL, "the execution or the waitpoint accepts no more signals"
    ),
    "invalid_answer": CodeInfo(_F.INVALID, _C.TERMINAL, "the payload does not fit the type that the wait declares"),
    "answer_unchecked": CodeInfo(
        _F.CONFLICT, _C.RETRYABLE, "the wait declares a type; compare the payload with it and send the signal again"
    ),
    "signal_not_rejectable": CodeInfo(
        _F.CONFLICT, _C.TERMINAL, "only signals that ended the last wait can be rejected, each once"
    ),
    "invalid_waitpoint_key": CodeInfo(_F.INVALID, _C.TERMINAL, "the waitpoint key is malformed"),
    "invalid_token": CodeInfo(_F.INVALID, _C.TERMINAL, "the waitpoint token is not valid"),
    "missing_token": CodeInfo(_F.INVALID, _C.TERMINAL, "a waitpoint token is required"),
    "token_expired": CodeInfo(_F.INVALID, _C.TERMINAL, "the token was signed with a revoked secret"),
    "hmac_secret_not_initialized": CodeInfo(
        _F.UNAVAILABLE, _C.RETRYABLE, "the store has no waitpoint secret; seed it first"
    ),
    "invalid_secret": CodeInfo(_F.INTERNAL, _C.BUG, "the stored waitpoint secret is unreadable"),
    "invalid_keys_missing_hmac": CodeInfo(_F.INVALID, _C.TERMINAL, "the key of the waitpoint secret is missing"),
    "invalid_lease_for_suspend": CodeInfo(_F.INVALID, _C.TERMINAL, "attempt_index is not the running attempt"),
    "resume_condition_not_met": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the resume condition is not met"),
    "waitpoint_not_pending": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the waitpoint is not pending"),
    "pending_waitpoint_expired": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the pending waitpoint expired"),
    "invalid_waitpoint_for_execution": CodeInfo(
        _F.INVALID, _C.TERMINAL, "the waitpoint belongs to another execution, or to another attempt of this one"
    ),
    "waitpoint_already_exists": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the waitpoint already exists"),
    "waitpoint_not_open": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the waitpoint is not open"),
    "waitpoint_not_token_bound": CodeInfo(_F.INVALID, _C.TERMINAL, "the waitpoint has no token"),
    "additional_waitpoint_binding_malformed": CodeInfo(
        _F.INVALID, _C.TERMINAL, "an additional waitpoint needs id and key"
    ),
    "use_pending_with_extras_unsupported": CodeInfo(
        _F.INVALID, _C.TERMINAL, "a pending waitpoint cannot have additional waitpoints"
    ),
    "invalid_kid": CodeInfo(_F.INVALID, _C.TERMINAL, "a kid must be non-empty text without ':'"),
    "invalid_secret_hex": CodeInfo(_F.INVALID, _C.TERMINAL, "a secret must be hex of even length"),
    "invalid_grace_ms": CodeInfo(
        _F.INVALID, _C.TERMINAL, "grace_ms must be 0 or a positive whole number, and 0 with end_graces"
    ),
    "rotation_conflict": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the kid was already used; choose a new one"),
    # streams
    "stream_closed": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the attempt's stream is closed"),
    "stale_owner_cannot_append": CodeInfo(_F.CONFLICT, _C.TERMINAL, "only the running attempt can append frames"),
    "retention_limit_exceeded": CodeInfo(_F.INVALID, _C.TERMINAL, "the frame is over its limit"),
    "stream_not_found": CodeInfo(_F.NOT_FOUND, _C.EXPECTED, "the stream has no frames yet"),
    "stream_already_closed": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the stream is already closed"),
    "frames_out_of_order": CodeInfo(
        _F.CONFLICT, _C.RETRYABLE, "earlier frames are missing; continue with the number in the reply"
    ),
    "tail_limit_exceeded": CodeInfo(_F.LIMITED, _C.RETRYABLE, "too many streams are tailed at the same time"),
    "invalid_frame_type": CodeInfo(_F.INVALID, _C.SOFT_ERROR, "unknown frame type"),
    "invalid_offset": CodeInfo(_F.INVALID, _C.RETRYABLE, "the stream cursor is malformed"),
    # budgets and quotas
    "budget_exceeded": CodeInfo(_F.LIMITED, _C.COOPERATIVE, "the usage would exceed a hard limit; stop spending"),
    "budget_soft_exceeded": CodeInfo(_F.LIMITED, _C.INFORMATIONAL, "the usage exceeds a soft limit"),
    "ok_already_applied": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the usage was already counted"),
    "budget_not_found": CodeInfo(_F.NOT_FOUND, _C.TERMINAL, "no such budget"),
    "invalid_budget_scope": CodeInfo(_F.INVALID, _C.TERMINAL, "unknown budget scope"),
    "budget_attach_conflict": CodeInfo(_F.CONFLICT, _C.TERMINAL, "another budget is already attached"),
    "budget_override_not_allowed": CodeInfo(_F.INVALID, _C.TERMINAL, "the budget cannot be overridden"),
    "quota_policy_not_found": CodeInfo(_F.NOT_FOUND, _C.TERMINAL, "no such quota policy"),
    "rate_limit_exceeded": CodeInfo(_F.LIMITED, _C.RETRYABLE, "the rate limit of the window is reached"),
    "concurrency_limit_exceeded": CodeInfo(_F.LIMITED, _C.RETRYABLE, "the concurrency limit is reached"),
    "quota_attach_conflict": CodeInfo(_F.CONFLICT, _C.TERMINAL, "another quota policy is already attached"),
    "invalid_quota_spec": CodeInfo(_F.INVALID, _C.TERMINAL, "the quota policy is malformed"),
    # flows
    "invalid_dependency": CodeInfo(_F.INVALID, _C.TERMINAL, "no such dependency edge"),
    "stale_graph_revision": CodeInfo(_F.CONFLICT, _C.RETRYABLE, "the graph has changed; read its revision again"),
    "execution_already_in_flow": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the execution is a member of another flow"),
    "already_member_of_different_flow": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the execution is a member of another flow"),
    "cycle_detected": CodeInfo(_F.INVALID, _C.TERMINAL, "the edge would create a cycle"),
    "flow_too_large": CodeInfo(_F.LIMITED, _C.TERMINAL, "the flow has too many members or edges"),
    "flow_not_found": CodeInfo(_F.NOT_FOUND, _C.TERMINAL, "no such flow"),
    "execution_not_in_flow": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the execution is not a member of the flow"),
    "dependency_already_exists": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the edge already exists"),
    "edge_group_decided": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the join is already decided and accepts no more edges"),
    "self_referencing_edge": CodeInfo(_F.INVALID, _C.TERMINAL, "an edge must connect two different executions"),
    "flow_already_terminal": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the flow has ended"),
    "deps_not_satisfied": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "some dependencies are not resolved"),
    "not_blocked_by_deps": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the execution does not wait for dependencies"),
    "not_runnable": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the execution is not runnable"),
    "terminal": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the execution has finished"),
    "invariant_violation": CodeInfo(_F.INTERNAL, _C.BUG, "stored state contradicts itself"),
    "corruption": CodeInfo(_F.INTERNAL, _C.BUG, "stored state is unreadable"),
    # workers
    "worker_instance_in_use": CodeInfo(_F.CONFLICT, _C.TERMINAL, "another live worker uses this instance id"),
    # the store itself
    "backend_unavailable": CodeInfo(_F.UNAVAILABLE, _C.RETRYABLE, "the store cannot be reached"),
    "backend_timeout": CodeInfo(_F.UNAVAILABLE, _C.RETRYABLE, "the store did not reply in time"),
    "unsupported_server": CodeInfo(_F.UNAVAILABLE, _C.TERMINAL, "the server is too old or lacks a feature"),
    "partition_mismatch": CodeInfo(_F.UNAVAILABLE, _C.TERMINAL, "the store was set up with different partition counts"),
    "layout_mismatch": CodeInfo(_F.UNAVAILABLE, _C.TERMINAL, "another program or version wrote this store or record"),
    "script_fault": CodeInfo(_F.INTERNAL, _C.BUG, "a server function failed"),
    "bad_reply": CodeInfo(_F.INTERNAL, _C.BUG, "the store sent an unexpected reply"),
}

# Every code as a member: ErrorCode.STALE_LEASE == "stale_lease".
ErrorCode = StrEnum("ErrorCode", {code.upper(): code for code in CODES})  # type: ignore[misc]
