"""Explain in one sentence why an execution is not running and what would change that."""

from __future__ import annotations

from collections.abc import Sequence

from flowfabric.core import contracts as c
from flowfabric.core.rules.tasks import has_task, is_task_token
from flowfabric.core.rules.unknown_tasks import is_unknown, sentence
from flowfabric.core.states import (
    AttemptState,
    BlockingReason,
    EligibilityState,
    LaneState,
    LifecyclePhase,
    OwnershipState,
    PublicState,
)

_ENDED = {
    PublicState.COMPLETED: "has completed; replay it to run it again",
    PublicState.FAILED: "has failed{because}; retry it to continue with its recorded steps",
    PublicState.CANCELLED: "was cancelled; retry it to continue with its recorded steps",
    PublicState.EXPIRED: "took too long and has expired{because}; retry it to continue with its recorded steps",
    PublicState.SKIPPED: "was skipped, because what it depends on did not succeed; retry that first",
}

_SUSPENDED = {
    BlockingReason.WAITING_FOR_SIGNAL: "is suspended until a signal arrives; deliver the signal",
    BlockingReason.WAITING_FOR_APPROVAL: "is suspended until a person answers; answer its question",
    BlockingReason.WAITING_FOR_CALLBACK: "is suspended until a callback comes in or an execution that it submitted "
    "ends; deliver a callback as a signal",
    BlockingReason.WAITING_FOR_TOOL_RESULT: "is suspended until a tool answers; deliver the result as a signal",
}

_PAUSED_BY_BUDGET = "is suspended until a decision about its budget{why}; signal it 'budget' with the answer"

# Blocked by a caller, with the remedy for that caller or an operator.
_HELD = {
    EligibilityState.BLOCKED_BY_BUDGET: ("waits for its budget", "raise or reset the budget, or unblock it"),
    EligibilityState.BLOCKED_BY_QUOTA: ("waits for its quota", "wait for room, raise the quota, or unblock it"),
    EligibilityState.BLOCKED_BY_LANE_STATE: (
        "is held back by the policy of its lane",
        "reopen the lane, or unblock it",
    ),
    EligibilityState.BLOCKED_BY_OPERATOR: ("was stopped by an operator", "unblock it"),
}

_CLOSED = {
    LaneState.PAUSED: "is paused; resume the lane",
    LaneState.DISABLED: "is disabled; set the lane active",
    LaneState.DRAINING: "is draining and starts nothing new; set the lane active",
}


def explain(facts: c.Explanation, workers: Sequence[c.WorkerInfo]) -> str:
    """Why an execution does not run, for people; `workers` are the live ones."""
    state = facts.state_vector
    match state.lifecycle_phase:
        case LifecyclePhase.TERMINAL:
            return _ENDED[facts.public_state].format(because=_in_brackets(facts.failure_reason))
        case LifecyclePhase.ACTIVE:
            return _active(facts)
        case LifecyclePhase.SUSPENDED:
            return _suspended(facts)
        case LifecyclePhase.SUBMITTED:
            return "was submitted and not released yet; finish submitting its flow"
        case LifecyclePhase.RUNNABLE:
            return _runnable(facts, workers)


def _suspended(facts: c.Explanation) -> str:
    reason = facts.state_vector.blocking_reason
    if reason is BlockingReason.WAITING_FOR_BUDGET:
        return _PAUSED_BY_BUDGET.format(why=_in_brackets(facts.blocking_detail))
    return _SUSPENDED.get(reason, "is suspended; resume it")


def _active(facts: c.Explanation) -> str:
    owner, again = f"worker {facts.worker_instance_id}", "it runs again when an engine or a reclaim takes it over"
    match facts.state_vector.ownership_state:
        case OwnershipState.LEASE_REVOKED:
            return f"was taken from {owner}; {again}"
        case OwnershipState.LEASE_EXPIRED_RECLAIMABLE:
            return f"was lost by {owner}, whose lease ran out; {again}"
    if facts.lease_expires_at is not None and facts.lease_expires_at <= facts.now_ms:
        since = _duration(facts.now_ms - facts.lease_expires_at)
        return f"was lost by {owner}, whose lease ran out {since} ago; start an engine, which takes it over"
    return f"runs on {owner}"


def _runnable(facts: c.Explanation, workers: Sequence[c.WorkerInfo]) -> str:
    eligibility = facts.state_vector.eligibility_state
    if facts.flow_is_cancelled or facts.state_vector.blocking_reason is BlockingReason.PAUSED_BY_FLOW_CANCEL:
        return "was stopped with its flow, which is cancelled; submit the work in a new flow"
    if facts.key_ahead is not None:
        return _waits_for_key(facts)
    match eligibility:
        case EligibilityState.ELIGIBLE_NOW:
            return _eligible(facts, workers)
        case EligibilityState.NOT_ELIGIBLE_UNTIL_TIME:
            return _delayed(facts)
        case EligibilityState.BLOCKED_BY_DEPENDENCIES:
            return f"waits for {_count(facts.open_dependencies, 'open dependency', 'open dependencies')}; finish them"
        case EligibilityState.BLOCKED_BY_ROUTE:
            return _set_aside(facts, workers)
        case EligibilityState.BLOCKED_BY_BUDGET if facts.budget is not None:
            return _waits_for_budget(facts, facts.budget)
        case EligibilityState.BLOCKED_BY_QUOTA if facts.quota is not None:
            return _waits_for_quota(facts, facts.quota)
        case _:
            why, advice = _HELD.get(eligibility, ("is held back", "unblock it"))
            return f"{why}{_in_brackets(facts.blocking_detail)}; {advice}"


def _delayed(facts: c.Explanation) -> str:
    left = (facts.delay_until or 0) - facts.now_ms
    if left <= 0:
        return f"was delayed until {_duration(-left)} ago; start an engine, which promotes it"
    match facts.state_vector.blocking_reason:
        case BlockingReason.WAITING_FOR_RETRY_BACKOFF:
            because = _in_brackets(facts.failure_reason)
            return f"waits for its next attempt after a failure{because}; it comes in {_duration(left)}"
        case BlockingReason.WAITING_FOR_RESUME_DELAY:
            return f"was resumed with a delay; it continues in {_duration(left)}"
        case _:
            return f"is delayed; it may start in {_duration(left)}"


def _set_aside(facts: c.Explanation, workers: Sequence[c.WorkerInfo]) -> str:
    detail = _in_brackets(facts.blocking_detail)
    missing = _missing(facts, workers)
    if facts.state_vector.blocking_reason is BlockingReason.WAITING_FOR_LOCALITY_MATCH:
        return f"was set aside until a worker of the right place comes{detail}; start one there, or unblock it"
    if missing:
        return f"was set aside{detail} and {missing}, or unblock it"
    return f"was set aside{detail} although a live worker can run it; unblock it"


def _waits_for_budget(facts: c.Explanation, budget: c.BudgetStatus) -> str:
    used = {name: budget.usage.get(name, 0) + budget.reserved.get(name, 0) for name in budget.hard_limits}
    full = [name for name, limit in budget.hard_limits.items() if used[name] >= limit]
    names = full or [name for name in [budget.last_breach_dim] if budget.breached_at and name in used]
    numbers = ", ".join(f"{name} {used[name]} of {budget.hard_limits[name]}" for name in names) or "it has room again"
    reset = budget.next_reset_at
    again = f"it is reset in {_duration(max(0, reset - facts.now_ms))}; " if reset is not None else ""
    name = f"{budget.name!r} ({budget.budget_id})" if budget.name else budget.budget_id
    return f"waits for budget {name}: {numbers}{_place(facts)}; {again}raise its limit or reset it"


def _waits_for_quota(facts: c.Explanation, quota: c.QuotaStatus) -> str:
    numbers = []
    if quota.max_concurrent:
        numbers.append(f"{quota.running} of at most {quota.max_concurrent} run")
    if quota.window_seconds:
        started = f"{quota.started} of at most {quota.max_requests_per_window} have started"
        numbers.append(f"{started} within {quota.window_seconds} s")
    wait = quota.retry_after_ms
    when = "when one is done" if wait is None else f"in {_duration(wait)}, when the window has room"
    said = " and ".join(numbers) or "it has no limit any more"
    return f"waits for quota {quota.quota_policy_id}: {said}{_place(facts)}; it starts {when}, or raise the quota"


def _place(facts: c.Explanation) -> str:
    """How many wait before it, and the latest time of the next check of the limit."""
    ahead = f", and {_count(facts.limit_ahead, 'other waits', 'others wait')} before it" if facts.limit_ahead else ""
    if facts.limit_look_at is None:
        return ahead
    left = facts.limit_look_at - facts.now_ms
    look = f"looked at again in {_duration(left)}" if left > 0 else "looked at now"
    return f"{ahead} ({look})"


def _waits_for_key(facts: c.Explanation) -> str:
    of_key = f"of the concurrency key {facts.concurrency_key!r}"
    ahead = f", and {_count(facts.key_ahead, 'other waits', 'others wait')} before it" if facts.key_ahead else ""
    return (
        f"waits for the others {of_key}: {facts.key_running} of at most {facts.key_limit} run{ahead}; "
        f"it starts when they are done, or raise key_concurrency of lane {facts.lane_id}"
    )


def _eligible(facts: c.Explanation, workers: Sequence[c.WorkerInfo]) -> str:
    is_started = facts.state_vector.attempt_state is AttemptState.ATTEMPT_INTERRUPTED
    if facts.lane_state in _CLOSED and not (facts.lane_state is LaneState.DRAINING and is_started):
        return f"waits because its lane {facts.lane_id} {_CLOSED[facts.lane_state]}"
    if facts.offered_to is not None:
        left = _duration(max(0, (facts.offer_until or 0) - facts.now_ms))
        return f"is offered to worker {facts.offered_to}, which asks its limits; the offer ends in {left}"
    if facts.granted_to is not None:
        left = _duration(max(0, (facts.grant_expires_at or 0) - facts.now_ms))
        return f"is granted to worker {facts.granted_to}; it claims it, or the grant ends in {left}"
    if facts.lane_limit is not None and facts.lane_running >= facts.lane_limit:
        return (
            f"waits for a place in lane {facts.lane_id}: {facts.lane_running} of at most {facts.lane_limit} run here; "
            "it starts when one is done, or raise max_concurrency"
        )
    if facts.key_limit is not None and facts.key_running >= facts.key_limit:
        return _waits_for_key(facts)
    return _missing(facts, workers) or _in_line(facts, workers)


def _missing(facts: c.Explanation, workers: Sequence[c.WorkerInfo]) -> str | None:
    """The capabilities that no live worker offers; None when a worker can run it."""
    needed = _capabilities(facts)
    of_lane = [worker for worker in workers if facts.lane_id in worker.lanes]
    if is_unknown(facts.execution_kind, facts.lane_id, workers):
        missing_task = sentence(facts.execution_kind, facts.lane_id, workers)
        return f"waits: {missing_task}; it starts when a worker with this task comes"
    if not of_lane:
        these = f" with capabilities {_braced(needed)}" if needed else ""
        return f"waits for a worker of lane {facts.lane_id}: no live worker serves it; start one{these}"
    if _able(facts, of_lane):
        return None
    offered = {token for worker in of_lane for token in worker.capabilities}
    missing = sorted(needed - offered) or sorted(needed)  # all are offered, but not by one worker
    return (
        f"waits for a worker that offers {' and '.join(missing)}: no live worker of lane {facts.lane_id} does; "
        f"start one with capabilities {_braced(needed)}"
    )


def _capabilities(facts: c.Explanation) -> set[str]:
    """Those that it was submitted with."""
    return {token for token in facts.required_capabilities if not is_task_token(token)}


def _in_line(facts: c.Explanation, workers: Sequence[c.WorkerInfo]) -> str:
    who = _count(len(_able(facts, workers)), "live worker that can run it", "live workers that can run it")
    if facts.ahead:
        ahead = _count(facts.ahead, "execution is", "executions are")
        return f"waits for its turn: {ahead} ahead of it, for {who}; add workers, or raise its priority"
    return f"is the next of its queue, for {who}; it starts when one has a free slot"


def _able(facts: c.Explanation, workers: Sequence[c.WorkerInfo]) -> list[c.WorkerInfo]:
    return [
        worker
        for worker in workers
        if facts.lane_id in worker.lanes
        and has_task(worker.tasks, facts.execution_kind)
        and _capabilities(facts) <= set(worker.capabilities)
    ]


def _braced(tokens: set[str]) -> str:
    return "{" + ", ".join(repr(token) for token in sorted(tokens)) + "}"


def _in_brackets(text: str | None) -> str:
    return f" ({text})" if text else ""


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _duration(ms: int) -> str:
    return f"{ms / 1000:.1f} s" if ms < 60_000 else f"{ms // 60_000} min"
