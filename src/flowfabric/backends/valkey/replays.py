"""A lost reply must not become a wrong answer: recognise one's own earlier call in what is recorded (G3).

The functions refuse a call on an execution that has no running attempt, and say how it stands. When that is exactly
what the same call with the same fence would have left behind, the call is answered as it was the first time; everything
else stays a refusal.
"""

from __future__ import annotations

from flowfabric.core.contracts import (
    CancelExecutionArgs,
    CompleteExecutionArgs,
    DelayExecutionArgs,
    ExecutionCompleted,
    FailExecutionArgs,
    LeaseFence,
    MoveToWaitingChildrenArgs,
    RetryScheduled,
    TerminalFailed,
)
from flowfabric.core.states import AttemptState, LifecyclePhase, PublicState, TerminalOutcome
from flowfabric.errors import ExecutionNotActive


class Recorded:
    """How an execution stands, as a refusal tells it."""

    def __init__(self, error: ExecutionNotActive) -> None:
        said = {name: str(value or "") for name, value in error.details.items()}
        self.outcome = said.get("terminal_outcome", "")
        self.phase = said.get("lifecycle_phase", "")
        self.attempt_state = said.get("attempt_state", "")
        self.delay_until = int(said.get("delay_until") or 0)
        self.public_state = said.get("public_state", "")
        self._owner = (said.get("lease_epoch", ""), said.get("attempt_id", ""))

    def ended_by(self, fence: LeaseFence | None, outcome: TerminalOutcome) -> bool:
        return self.outcome == outcome and self._is(fence)

    def released_by(self, fence: LeaseFence | None, attempt_state: AttemptState) -> bool:
        return self.phase == LifecyclePhase.RUNNABLE and self.attempt_state == attempt_state and self._is(fence)

    def _is(self, fence: LeaseFence | None) -> bool:
        """Without a fence there is no telling whose call it was; only an operator calls so, and means any."""
        return fence is None or self._owner == (str(fence.lease_epoch), str(fence.attempt_id))


def was_completed(args: CompleteExecutionArgs, error: ExecutionNotActive) -> bool:
    return Recorded(error).ended_by(args.fence, TerminalOutcome.SUCCESS)


def was_cancelled(args: CancelExecutionArgs, error: ExecutionNotActive) -> bool:
    return Recorded(error).ended_by(args.fence, TerminalOutcome.CANCELLED)


def was_failed(args: FailExecutionArgs, error: ExecutionNotActive) -> RetryScheduled | TerminalFailed | None:
    recorded = Recorded(error)
    if recorded.ended_by(args.fence, TerminalOutcome.FAILED):
        return TerminalFailed()
    if recorded.released_by(args.fence, AttemptState.PENDING_RETRY_ATTEMPT) and recorded.delay_until:
        return RetryScheduled(delay_until=recorded.delay_until)
    return None


def recorded(
    args: CompleteExecutionArgs | FailExecutionArgs, error: ExecutionNotActive
) -> ExecutionCompleted | RetryScheduled | TerminalFailed | None:
    """What the same ending answered the first time; None when this is another one."""
    if isinstance(args, FailExecutionArgs):
        return was_failed(args, error)
    if was_completed(args, error):
        return ExecutionCompleted(execution_id=args.execution_id, public_state=PublicState.COMPLETED)
    return None


def was_delayed(args: DelayExecutionArgs, error: ExecutionNotActive) -> bool:
    recorded = Recorded(error)
    released = recorded.released_by(args.fence, AttemptState.ATTEMPT_INTERRUPTED)
    return released and recorded.delay_until == args.delay_until


def was_moved_to_waiting_children(args: MoveToWaitingChildrenArgs, error: ExecutionNotActive) -> bool:
    recorded = Recorded(error)
    released = recorded.released_by(args.fence, AttemptState.ATTEMPT_INTERRUPTED)
    return released and recorded.public_state == PublicState.WAITING_CHILDREN
