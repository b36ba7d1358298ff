"""Turn a refusal's code and details into an exception."""

from __future__ import annotations

from collections.abc import Sequence

from flowfabric.errors import CODES, BadReply, Detail, FlowFabricError, InvalidInput, error_class_for

# The names of each code's details, in order; other codes carry free text.
_DETAILS: dict[str, tuple[str, ...]] = {
    "execution_not_active": (
        "terminal_outcome", "lease_epoch", "lifecycle_phase", "attempt_id", "attempt_state", "delay_until",
        "public_state",
    ),
    "answer_unchecked": ("suspension_id", "form"),
    "already_member_of_different_flow": ("flow_id",),
    "capability_mismatch": ("missing",),
    "concurrency_limit_exceeded": ("limit",),
    "edge_group_decided": ("state",),
    "execution_already_exists": ("existing_execution_id",),
    "execution_already_in_flow": ("flow_id",),
    "execution_not_reclaimable": ("lifecycle_phase", "ownership_state"),
    "execution_not_eligible": ("state",),
    "execution_not_in_eligible_set": ("state",),
    "execution_not_in_flow": ("member", "field"),
    "execution_not_leaseable": ("state",),
    "execution_not_suspended": ("state", "suspension_id"),
    "execution_not_terminal": ("state",),
    "flow_already_terminal": ("state",),
    "fork_not_allowed": ("state",),
    "flow_too_large": ("what", "most"),
    "frames_out_of_order": ("frame_number",),
    "max_retries_exhausted": ("max_reclaim_count",),
    "max_replays_exhausted": ("max_replay_count",),
    "invalid_blocking_reason": ("blocking_reason",),
    "invalid_tag_key": ("tag_key",),
    "invalid_grace_ms": ("grace_ms",),
    "invalid_kid": ("kid",),
    "not_runnable": ("state",),
    "payload_too_large": ("max_bytes",),
    "replay_not_allowed": ("why",),
    "retention_limit_exceeded": ("max_bytes",),
    "retry_not_allowed": ("state",),
    "rotation_conflict": ("kid",),
    "signal_not_rejectable": ("signal_id",),
    "signal_limit_exceeded": ("max_signals", "place", "max_bytes"),
    "stale_graph_revision": ("graph_revision",),
    "stale_owner_cannot_append": ("why",),
    "stream_closed": ("why",),
    "target_not_signalable": ("state",),
    "waitpoint_closed": ("why",),
    "waitpoint_not_open": ("waitpoint_state",),
    "waitpoint_not_pending": ("waitpoint_state",),
    "worker_instance_in_use": ("worker_id",),
}  # fmt: skip


def refusal(operation: str, subject: str, code: str, details: Sequence[str]) -> FlowFabricError:
    """The exception for one refusal; it names the operation, the execution and its state."""
    code, _, glued = code.partition(":")  # one code of the public wire carries its detail as a suffix
    if glued:
        details = [glued, *details]
    if code not in CODES:
        return BadReply(f"{operation} {subject}: unknown code {code!r} {list(details)}", operation=operation)
    if code == "invalid_input":
        return _invalid_input(operation, details)
    names = _DETAILS.get(code)
    named: dict[str, Detail] = dict(zip(names or map("detail_{}".format, range(len(details))), details, strict=False))
    shown = ", ".join(f"{name} {value}" if names else str(value) for name, value in named.items() if value)
    message = f"{operation} {subject}: {CODES[code].meaning}" + (f" ({shown})" if shown else "")
    return error_class_for(code)(message, code=code, operation=operation, execution_id=subject or None, **named)


def _invalid_input(operation: str, details: Sequence[str]) -> InvalidInput:
    field, _, problem = (details[0] if details else "").partition(": ")
    expected, _, got = problem.partition(", got ")
    return InvalidInput(field or operation, got.strip("'"), expected or "malformed")
