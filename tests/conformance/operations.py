"""One caller for each row of the transition table: the operation as its rightful caller would call it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from flowfabric.core import contracts as c
from flowfabric.core.conditions import ByName, Single
from flowfabric.core.ids import SignalId, WaitpointId, WaitpointKey, WaitpointToken
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.core.rules.execution.transitions import TRANSITIONS
from flowfabric.core.states import BlockingReason, TerminalOutcome
from tests.conformance.driver import ATTEMPT_TIMEOUT, BACKOFF, DEADLINE_IN, TTL, Driver, Subject
from tests.conformance.linking import apply_edge, resolve_edge
from tests.conformance.situations import AWAITED, LATER, NAME, SUSPENSION_TIMEOUT
from tests.conformance.suspending import KID, Suspender

Caller = Callable[[Driver, Subject], Awaitable[object]]


async def _claim(d: Driver, x: Subject) -> object:
    await d.place_grant(x)
    return await d.claim(x)


async def _claim_resumed(d: Driver, x: Subject) -> object:
    await d.place_grant(x)
    return await d.claim_resumed(x)


async def _reclaim(d: Driver, x: Subject) -> object:
    await d.place_grant(x)
    return await d.reclaim(x)


async def _reclaim_at_cap(d: Driver, x: Subject) -> object:
    await d.place_grant(x)
    return await d.reclaim(x, max_reclaim_count=0)


async def _deadline(d: Driver, x: Subject) -> object:
    await d.clock.advance(DEADLINE_IN)
    return await d.expire(x, c.ExpireReason.EXECUTION_DEADLINE)


async def _attempt_timeout(d: Driver, x: Subject) -> object:
    await d.clock.advance(ATTEMPT_TIMEOUT)
    return await d.expire(x, c.ExpireReason.ATTEMPT_TIMEOUT)


async def _mark_expired(d: Driver, x: Subject) -> object:
    await d.clock.advance(TTL)
    return await d.mark_expired(x)


async def _promote(d: Driver, x: Subject) -> object:
    await d.clock.advance(BACKOFF)
    return await d.promote(x)


async def _move(d: Driver, x: Subject) -> object:
    await d.open_dependency(x)
    return await d.move_to_waiting_children(x)


def _suspend_early(d: Driver, x: Subject) -> Awaitable[object]:
    at = c.PendingWaitpoint(waitpoint_id=_or_made_up(x.pending, LATER).waitpoint_id, waitpoint_key=LATER)
    args = Suspender(d).args(x, Single(LATER, ByName(NAME)), at)
    return d.backend.suspend_execution(args)


def _or_made_up(
    at: c.IssuedWaitpoint | c.PendingWaitpointCreated | None, key: WaitpointKey
) -> c.IssuedWaitpoint | c.PendingWaitpointCreated:
    """The waitpoint, or what somebody makes up who has none."""
    token = WaitpointToken(f"{KID}:{'0' * 40}")
    return at or c.IssuedWaitpoint(waitpoint_id=WaitpointId.new(), waitpoint_key=key, waitpoint_token=token)


def _deliver(name: str = NAME, **overrides: Any) -> Caller:
    return lambda d, x: Suspender(d).signal(x, _or_made_up(x.waitpoint, AWAITED), name, **overrides)


def _signal(key: WaitpointKey) -> Caller:
    return lambda d, x: d.backend.signal_execution(
        c.SignalExecutionArgs(
            execution_id=x.execution_id, signal_id=SignalId.new(), signal_name=NAME, waitpoint_key=key
        )
    )


async def _expire_suspension(d: Driver, x: Subject) -> object:
    await d.clock.advance(SUSPENSION_TIMEOUT)
    return await d.backend.expire_suspension(c.ExpireSuspensionArgs(execution_id=x.execution_id))


def _close_awaited(d: Driver, x: Subject) -> Awaitable[object]:
    at = _or_made_up(x.waitpoint, AWAITED).waitpoint_id
    return Suspender(d).close(x, at, source=c.CancelSource.OPERATOR_OVERRIDE)


def _record_step(d: Driver, x: Subject) -> Awaitable[object]:
    args = c.RecordStepArgs(execution_id=x.execution_id, fence=x.fence, step=c.StepKey(name="charge"), payload=b"paid")
    return d.backend.record_step(args)


def _promote_blocked(d: Driver, x: Subject) -> Awaitable[object]:
    return d.backend.promote_blocked_to_eligible(c.PromoteBlockedToEligibleArgs(execution_id=x.execution_id))


def _block(reason: BlockingReason) -> Caller:
    return lambda d, x: d.block(x, reason)


OPERATIONS: dict[str, Caller] = {
    "issue_claim_grant": lambda d, x: d.grant(x),
    "claim_execution": _claim,
    "claim_resumed_execution": _claim_resumed,
    "issue_grant_and_claim": lambda d, x: d.grant_and_claim(x),
    "renew_lease": lambda d, x: d.renew(x),
    "update_progress": lambda d, x: d.progress(x),
    "append_frame": lambda d, x: d.append(x),
    "complete_execution": lambda d, x: d.complete(x),
    "fail_execution": lambda d, x: d.fail(x),
    "fail_execution:retry": lambda d, x: d.fail(x, retry=True),
    "delay_execution": lambda d, x: d.delay(x, d.clock.now_ms + 2 * BACKOFF),
    "delay_execution:past": lambda d, x: d.delay(x, d.clock.now_ms - 1),
    "move_to_waiting_children": _move,
    "record_step": _record_step,
    "create_pending_waitpoint": lambda d, x: Suspender(d).pending(x, "another"),
    "suspend_execution": lambda d, x: d.backend.suspend_execution(Suspender(d).args(x)),
    "suspend_execution:early": _suspend_early,
    "deliver_signal": _deliver(),
    "deliver_signal:delayed": _deliver(resume_delay_ms=BACKOFF),
    "deliver_signal:other": _deliver("chatter"),
    "deliver_signal:early": lambda d, x: Suspender(d).signal(x, _or_made_up(x.pending, LATER), NAME),
    "signal_execution": _signal(AWAITED),
    "signal_execution:early": _signal(LATER),
    "resume_execution": lambda d, x: Suspender(d).resume(x),
    "resume_execution:delayed": lambda d, x: Suspender(d).resume(x, resume_delay_ms=BACKOFF),
    "close_waitpoint": lambda d, x: Suspender(d).close(x, _or_made_up(x.pending, LATER).waitpoint_id),
    "close_waitpoint:operator": _close_awaited,
    **{f"expire_suspension:{behavior}": _expire_suspension for behavior in TimeoutBehavior},
    "cancel_execution": lambda d, x: d.cancel(x),
    "expire_execution:deadline": _deadline,
    "expire_execution:attempt_timeout": _attempt_timeout,
    "expire_execution:attempt_timeout_retry": _attempt_timeout,
    "mark_lease_expired_if_due": _mark_expired,
    "revoke_lease": lambda d, x: d.revoke(x),
    "issue_reclaim_grant": lambda d, x: d.reclaim_grant(x),
    "reclaim_execution": _reclaim,
    "reclaim_execution:at_cap": _reclaim_at_cap,
    "promote_delayed": _promote,
    "change_priority": lambda d, x: d.change_priority(x, 7),
    "unblock_execution": lambda d, x: d.unblock(x),
    "replay_execution": lambda d, x: d.replay(x),
    "watch_execution": lambda d, x: d.watch(x),
    "retry_execution": lambda d, x: d.retry(x),
    "fork_execution": lambda d, x: d.fork(x),
    "set_execution_tags": lambda d, x: d.set_tags(x, team__color="blue"),
    "apply_dependency_to_child": apply_edge,
    "resolve_dependency:satisfied": lambda d, x: resolve_edge(d, x, TerminalOutcome.SUCCESS),
    "resolve_dependency:impossible": lambda d, x: resolve_edge(d, x, TerminalOutcome.FAILED),
    "promote_blocked_to_eligible": _promote_blocked,
    **{
        f"block_execution_for_admission:{reason}": _block(reason)
        for reason in (
            BlockingReason.WAITING_FOR_BUDGET,
            BlockingReason.WAITING_FOR_QUOTA,
            BlockingReason.WAITING_FOR_CAPABLE_WORKER,
            BlockingReason.PAUSED_BY_OPERATOR,
            BlockingReason.PAUSED_BY_POLICY,
        )
    },
}

assert OPERATIONS.keys() == TRANSITIONS.keys(), OPERATIONS.keys() ^ TRANSITIONS.keys()
