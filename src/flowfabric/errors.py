"""Every refusal has one code, one family and one class; here they all are.

FlowFabricError                 code, message, details, family, error_class, retryable
  NotFound                      ExecutionNotFound
  Conflict                      StaleLease LeaseExpired LeaseRevoked ExecutionNotActive
  Invalid                       InvalidInput InvalidPolicy InvalidCapabilities CapabilityMismatch InvalidToken
  Limited
  Unavailable                   BackendUnavailable BackendTimeout UnsupportedServer PartitionMismatch
  Internal                      ScriptFault BadReply

The code is the same string in Lua, SQL, REST, the CLI and the docs. The family decides the HTTP status and the
exit code; the class tells a caller what to do next.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, NamedTuple


class Family(StrEnum):
    """What kind of trouble it is; outer layers map families, never codes."""

    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    INVALID = "invalid"
    LIMITED = "limited"
    UNAVAILABLE = "unavailable"
    INTERNAL = "internal"


class ErrorClass(StrEnum):
    """What a caller should do about a code."""

    TERMINAL = "terminal"  # stop, do not repeat
    RETRYABLE = "retryable"  # repeat after a pause, or dispatch again
    COOPERATIVE = "cooperative"  # do the named thing, then stop
    INFORMATIONAL = "informational"  # nothing to do, go on
    BUG = "bug"  # must not happen, alert
    EXPECTED = "expected"  # a normal empty state
    SOFT_ERROR = "soft_error"  # log, may go on


class CodeInfo(NamedTuple):
    family: Family
    error_class: ErrorClass
    meaning: str


_F, _C = Family, ErrorClass

CODES: dict[str, CodeInfo] = {
    # ownership of the running attempt
    "stale_lease": CodeInfo(_F.CONFLICT, _C.TERMINAL, "another lease owns the execution; stop working on it"),
    "lease_expired": CodeInfo(
        _F.CONFLICT, _C.TERMINAL, "the lease ran out before the call; stop, it will be reclaimed"
    ),
    "lease_revoked": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the lease was taken away; stop working on the execution"),
    "execution_not_active": CodeInfo(_F.CONFLICT, _C.TERMINAL, "no attempt is running"),
    "no_active_lease": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "no lease is held"),
    "fence_required": CodeInfo(
        _F.INVALID, _C.TERMINAL, "give lease_id, lease_epoch and attempt_id, or source=operator_override"
    ),
    "partial_fence_triple": CodeInfo(_F.INVALID, _C.TERMINAL, "lease_id, lease_epoch and attempt_id go together"),
    "active_attempt_exists": CodeInfo(_F.CONFLICT, _C.BUG, "an attempt is already running"),
    # claiming
    "use_claim_resumed_execution": CodeInfo(
        _F.CONFLICT, _C.RETRYABLE, "an attempt was interrupted; claim it with claim_resumed_execution"
    ),
    "not_a_resumed_execution": CodeInfo(
        _F.CONFLICT, _C.RETRYABLE, "no attempt was interrupted; claim it with claim_execution"
    ),
    "execution_not_leaseable": CodeInfo(_F.CONFLICT, _C.RETRYABLE, "it cannot be claimed now"),
    "lease_conflict": CodeInfo(_F.CONFLICT, _C.RETRYABLE, "somebody owns it"),
    "invalid_claim_grant": CodeInfo(_F.CONFLICT, _C.RETRYABLE, "no grant for this worker; ask for one"),
    "claim_grant_expired": CodeInfo(_F.CONFLICT, _C.RETRYABLE, "the grant ran out; ask for a new one"),
    "no_eligible_execution": CodeInfo(_F.NOT_FOUND, _C.RETRYABLE, "nothing to claim"),
    "execution_not_eligible": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "it is not eligible in this state"),
    "execution_not_in_eligible_set": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "it is not in the lane's queue"),
    "grant_already_exists": CodeInfo(
        _F.CONFLICT, _C.INFORMATIONAL, "a grant is out; wait for it to be used or to expire"
    ),
    "execution_not_reclaimable": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "its lease is neither expired nor revoked"),
    "capability_mismatch": CodeInfo(_F.CONFLICT, _C.RETRYABLE, "the worker lacks required capabilities"),
    # the execution as a whole
    "execution_not_found": CodeInfo(_F.NOT_FOUND, _C.TERMINAL, "no such execution"),
    "execution_already_exists": CodeInfo(
        _F.CONFLICT, _C.TERMINAL, "the idempotency key belongs to another execution; use that one, or another key"
    ),
    "execution_not_terminal": CodeInfo(
        _F.CONFLICT, _C.TERMINAL, "it has not finished; only finished executions are replayed"
    ),
    "max_replays_exhausted": CodeInfo(_F.LIMITED, _C.TERMINAL, "max_replay_count is used up"),
    "max_retries_exhausted": CodeInfo(
        _F.LIMITED, _C.TERMINAL, "max_reclaim_count is used up; the execution has failed"
    ),
    "replay_not_allowed": CodeInfo(_F.CONFLICT, _C.TERMINAL, "it cannot be replayed"),
    "execution_not_eligible_for_attempt": CodeInfo(_F.CONFLICT, _C.TERMINAL, "no attempt can start in this state"),
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
    "invalid_tag_key": CodeInfo(_F.INVALID, _C.TERMINAL, "tag keys look like `team.key`"),
    "payload_too_large": CodeInfo(_F.INVALID, _C.TERMINAL, "the payload is over its limit"),
    "unauthorized": CodeInfo(_F.INVALID, _C.TERMINAL, "not allowed"),
    "forbidden": CodeInfo(_F.INVALID, _C.TERMINAL, "the token does not allow it"),
    "route_not_found": CodeInfo(_F.NOT_FOUND, _C.TERMINAL, "the server has no such address"),
    "method_not_allowed": CodeInfo(_F.INVALID, _C.TERMINAL, "the address takes other methods"),
    # suspension, waitpoints, signals
    "execution_not_suspended": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "it is not suspended"),
    "already_suspended": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "it is suspended already"),
    "waitpoint_closed": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the waitpoint is closed"),
    "waitpoint_not_found": CodeInfo(_F.NOT_FOUND, _C.RETRYABLE, "no such waitpoint"),
    "target_not_signalable": CodeInfo(_F.CONFLICT, _C.TERMINAL, "no open waitpoint takes the signal"),
    "waitpoint_pending_use_buffer_script": CodeInfo(
        _F.CONFLICT, _C.RETRYABLE, "the waitpoint is pending; buffer the signal"
    ),
    "duplicate_signal": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the signal was delivered before"),
    "signal_limit_exceeded": CodeInfo(_F.LIMITED, _C.TERMINAL, "max_signals_per_execution is used up"),
    "invalid_waitpoint_key": CodeInfo(_F.INVALID, _C.TERMINAL, "the waitpoint key is malformed"),
    "invalid_token": CodeInfo(_F.INVALID, _C.TERMINAL, "the waitpoint token is not valid"),
    "missing_token": CodeInfo(_F.INVALID, _C.TERMINAL, "a waitpoint token is needed"),
    "token_expired": CodeInfo(_F.INVALID, _C.TERMINAL, "the token was signed with a retired secret"),
    "hmac_secret_not_initialized": CodeInfo(_F.UNAVAILABLE, _C.RETRYABLE, "seed the waitpoint secret first"),
    "invalid_secret": CodeInfo(_F.INTERNAL, _C.BUG, "the stored waitpoint secret is unreadable"),
    "invalid_keys_missing_hmac": CodeInfo(_F.INVALID, _C.TERMINAL, "the key of the waitpoint secret is missing"),
    "invalid_lease_for_suspend": CodeInfo(_F.INVALID, _C.TERMINAL, "attempt_index is not the running attempt"),
    "resume_condition_not_met": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the resume condition is not met"),
    "waitpoint_not_pending": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the waitpoint is not pending"),
    "pending_waitpoint_expired": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the pending waitpoint ran out"),
    "invalid_waitpoint_for_execution": CodeInfo(
        _F.INVALID, _C.TERMINAL, "the waitpoint belongs to another execution, or to another attempt of this one"
    ),
    "waitpoint_already_exists": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the waitpoint exists"),
    "waitpoint_not_open": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the waitpoint is not open"),
    "waitpoint_not_token_bound": CodeInfo(_F.INVALID, _C.TERMINAL, "the waitpoint has no token"),
    "additional_waitpoint_binding_malformed": CodeInfo(
        _F.INVALID, _C.TERMINAL, "an additional waitpoint needs id and key"
    ),
    "use_pending_with_extras_unsupported": CodeInfo(
        _F.INVALID, _C.TERMINAL, "a pending waitpoint takes no additional ones"
    ),
    "invalid_kid": CodeInfo(_F.INVALID, _C.TERMINAL, "a kid is non-empty text without ':'"),
    "invalid_secret_hex": CodeInfo(_F.INVALID, _C.TERMINAL, "a secret is hex of even length"),
    "invalid_grace_ms": CodeInfo(_F.INVALID, _C.TERMINAL, "grace_ms is a whole number from 0, and 0 with end_graces"),
    "rotation_conflict": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the kid was used before; use a fresh kid"),
    # streams
    "stream_closed": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the attempt's stream is closed"),
    "stale_owner_cannot_append": CodeInfo(_F.CONFLICT, _C.TERMINAL, "only the running attempt appends frames"),
    "retention_limit_exceeded": CodeInfo(_F.INVALID, _C.TERMINAL, "the frame is over its limit"),
    "stream_not_found": CodeInfo(_F.NOT_FOUND, _C.EXPECTED, "nothing was streamed yet"),
    "stream_already_closed": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the stream is closed already"),
    "frames_out_of_order": CodeInfo(
        _F.CONFLICT, _C.RETRYABLE, "frames before these are missing; go on with the number told"
    ),
    "tail_limit_exceeded": CodeInfo(_F.LIMITED, _C.RETRYABLE, "too many streams are followed at once"),
    "invalid_frame_type": CodeInfo(_F.INVALID, _C.SOFT_ERROR, "unknown frame type"),
    "invalid_offset": CodeInfo(_F.INVALID, _C.RETRYABLE, "the stream cursor is malformed"),
    # budgets and quotas
    "budget_exceeded": CodeInfo(_F.LIMITED, _C.COOPERATIVE, "a hard limit would be crossed; stop spending"),
    "budget_soft_exceeded": CodeInfo(_F.LIMITED, _C.INFORMATIONAL, "a soft limit was crossed"),
    "ok_already_applied": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "the usage was counted before"),
    "budget_not_found": CodeInfo(_F.NOT_FOUND, _C.TERMINAL, "no such budget"),
    "invalid_budget_scope": CodeInfo(_F.INVALID, _C.TERMINAL, "unknown budget scope"),
    "budget_attach_conflict": CodeInfo(_F.CONFLICT, _C.TERMINAL, "another budget is attached"),
    "budget_override_not_allowed": CodeInfo(_F.INVALID, _C.TERMINAL, "the budget cannot be overridden"),
    "quota_policy_not_found": CodeInfo(_F.NOT_FOUND, _C.TERMINAL, "no such quota policy"),
    "rate_limit_exceeded": CodeInfo(_F.LIMITED, _C.RETRYABLE, "the window is full"),
    "concurrency_limit_exceeded": CodeInfo(_F.LIMITED, _C.RETRYABLE, "all slots are taken"),
    "quota_attach_conflict": CodeInfo(_F.CONFLICT, _C.TERMINAL, "another quota policy is attached"),
    "invalid_quota_spec": CodeInfo(_F.INVALID, _C.TERMINAL, "the quota policy is malformed"),
    # flows
    "invalid_dependency": CodeInfo(_F.INVALID, _C.TERMINAL, "no such dependency"),
    "stale_graph_revision": CodeInfo(_F.CONFLICT, _C.RETRYABLE, "the graph has changed; read its revision again"),
    "execution_already_in_flow": CodeInfo(_F.CONFLICT, _C.TERMINAL, "it is a member of another flow"),
    "already_member_of_different_flow": CodeInfo(_F.CONFLICT, _C.TERMINAL, "it is a member of another flow"),
    "cycle_detected": CodeInfo(_F.INVALID, _C.TERMINAL, "the edge would close a cycle"),
    "flow_too_large": CodeInfo(_F.LIMITED, _C.TERMINAL, "the flow has too many members or edges"),
    "flow_not_found": CodeInfo(_F.NOT_FOUND, _C.TERMINAL, "no such flow"),
    "execution_not_in_flow": CodeInfo(_F.CONFLICT, _C.TERMINAL, "it is not a member of the flow"),
    "dependency_already_exists": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the edge exists"),
    "edge_group_decided": CodeInfo(_F.CONFLICT, _C.TERMINAL, "its join is decided and takes no more edges"),
    "self_referencing_edge": CodeInfo(_F.INVALID, _C.TERMINAL, "an edge joins two different executions"),
    "flow_already_terminal": CodeInfo(_F.CONFLICT, _C.TERMINAL, "the flow has ended"),
    "deps_not_satisfied": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "dependencies are open"),
    "not_blocked_by_deps": CodeInfo(_F.CONFLICT, _C.INFORMATIONAL, "no dependency is open"),
    "not_runnable": CodeInfo(_F.CONFLICT, _C.TERMINAL, "it is not runnable"),
    "terminal": CodeInfo(_F.CONFLICT, _C.TERMINAL, "it has finished"),
    "invariant_violation": CodeInfo(_F.INTERNAL, _C.BUG, "stored state contradicts itself"),
    "corruption": CodeInfo(_F.INTERNAL, _C.BUG, "stored state is unreadable"),
    # workers
    "worker_instance_in_use": CodeInfo(_F.CONFLICT, _C.TERMINAL, "another worker lives under this instance id"),
    # the store itself
    "backend_unavailable": CodeInfo(_F.UNAVAILABLE, _C.RETRYABLE, "the store cannot be reached"),
    "backend_timeout": CodeInfo(_F.UNAVAILABLE, _C.RETRYABLE, "the store did not answer in time"),
    "unsupported_server": CodeInfo(_F.UNAVAILABLE, _C.TERMINAL, "the server is too old or lacks a feature"),
    "partition_mismatch": CodeInfo(_F.UNAVAILABLE, _C.TERMINAL, "the store was set up with other partition counts"),
    "layout_mismatch": CodeInfo(_F.UNAVAILABLE, _C.TERMINAL, "another program wrote this store or record"),
    "script_fault": CodeInfo(_F.INTERNAL, _C.BUG, "a server function failed"),
    "bad_reply": CodeInfo(_F.INTERNAL, _C.BUG, "the store answered something unexpected"),
}

# Every code as a member: ErrorCode.STALE_LEASE == "stale_lease".
ErrorCode = StrEnum("ErrorCode", {code.upper(): code for code in CODES})  # type: ignore[misc]

Detail = str | int | bool | None


class FlowFabricError(Exception):
    """Base of every error the library raises."""

    default_code: ClassVar[str] = "bad_reply"

    def __init__(self, message: str = "", *, code: str | None = None, **details: Detail) -> None:
        self.code = code or self.default_code
        self.details: dict[str, Detail] = details
        self.message = message or CODES[self.code].meaning
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    @property
    def family(self) -> Family:
        return CODES[self.code].family

    @property
    def error_class(self) -> ErrorClass:
        return CODES[self.code].error_class

    @property
    def retryable(self) -> bool:
        return self.error_class is ErrorClass.RETRYABLE


class NotFound(FlowFabricError):
    """What was asked for does not exist."""

    default_code = "execution_not_found"


class Conflict(FlowFabricError):
    """The stored state does not allow it."""

    default_code = "execution_not_active"


class Invalid(FlowFabricError):
    """The input is wrong; nothing was changed."""

    default_code = "invalid_input"


class Limited(FlowFabricError):
    """A limit is reached."""

    default_code = "rate_limit_exceeded"


class Unavailable(FlowFabricError):
    """The store cannot serve the call."""

    default_code = "backend_unavailable"


class Internal(FlowFabricError):
    """A bug, here or in the store."""

    default_code = "bad_reply"


class ExecutionNotFound(NotFound):
    default_code = "execution_not_found"


class StaleLease(Conflict):
    default_code = "stale_lease"


class LeaseExpired(Conflict):
    default_code = "lease_expired"


class LeaseRevoked(Conflict):
    default_code = "lease_revoked"


class ExecutionNotActive(Conflict):
    """No attempt is running; the details say how the execution stands.

    details: terminal_outcome, lease_epoch, lifecycle_phase, attempt_id, attempt_state, delay_until,
    public_state
    """

    default_code = "execution_not_active"


class CapabilityMismatch(Conflict):
    """The worker lacks capabilities; details: missing (comma-separated)."""

    default_code = "capability_mismatch"


class BudgetExceeded(Limited):
    """A budget has no room for what was to be spent; details: budget_id, dimension, used, limit.

    `used` counts what is reserved, too.
    """

    default_code = "budget_exceeded"


class InvalidInput(Invalid):
    """One argument is wrong: which one, what it was, and what it should be."""

    default_code = "invalid_input"

    def __init__(self, field: str, value: object, problem: str, *, code: str | None = None) -> None:
        self.field = field
        super().__init__(f"{field}: {problem} (got {_shorten(value)})", code=code, field=field)


class InvalidPolicy(InvalidInput):
    default_code = "invalid_policy_json"


class InvalidCapabilities(InvalidInput):
    default_code = "invalid_capabilities"


class InvalidToken(Invalid):
    """The waitpoint token is wrong or expired, or there is no such waitpoint; only its holder is told which (G6)."""

    default_code = "invalid_token"


class BackendUnavailable(Unavailable):
    """The store cannot be reached; details: sent (the call may have been carried out)."""

    default_code = "backend_unavailable"


class BackendTimeout(BackendUnavailable):
    default_code = "backend_timeout"


class UnsupportedServer(Unavailable):
    default_code = "unsupported_server"


class PartitionMismatch(Unavailable):
    default_code = "partition_mismatch"


class ScriptFault(Internal):
    """A server function failed; details: file, line of its source."""

    default_code = "script_fault"


class BadReply(Internal):
    default_code = "bad_reply"


_BY_FAMILY: dict[Family, type[FlowFabricError]] = {
    Family.NOT_FOUND: NotFound,
    Family.CONFLICT: Conflict,
    Family.INVALID: Invalid,
    Family.LIMITED: Limited,
    Family.UNAVAILABLE: Unavailable,
    Family.INTERNAL: Internal,
}

_BY_CODE: dict[str, type[FlowFabricError]] = {
    kind.default_code: kind
    for kind in (
        ExecutionNotFound, StaleLease, LeaseExpired, LeaseRevoked, ExecutionNotActive, CapabilityMismatch,
        BudgetExceeded, InvalidToken, BackendUnavailable, BackendTimeout, UnsupportedServer, PartitionMismatch,
        ScriptFault, BadReply,
    )
}  # fmt: skip
_BY_CODE["token_expired"] = InvalidToken


def error_class_for(code: str) -> type[FlowFabricError]:
    """The exception class that carries `code`; its family's class where the code has none of its own."""
    if code not in CODES:
        return BadReply
    return _BY_CODE.get(code) or _BY_FAMILY[CODES[code].family]


def _shorten(value: object, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
