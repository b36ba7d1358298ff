"""Recognise a repeated call, so that a lost reply does not become a wrong answer (G3).

A call on an execution without a running attempt is refused, and the refusal contains the execution's state.
If the same call with the same fence would have left exactly that state, the caller gets the first answer
again; every other refusal stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

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

# Fields of the refusal `execution_not_active`.
Details: TypeAlias = Mapping[str, Any]


class Recorded:
    """The state of an execution, as a refusal reports it."""

    def __init__(self, details: Details) -> None:
        said = {name: str(value or "") for name, value in details.items()}
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
        """A call without a fence matches any attempt; only an operator may omit the fence."""
        return fence is None or self._owner == (str(fence.lease_epoch), str(fence.attempt_id))


def was_completed(args: CompleteExecutionArgs, details: Details) -> bool:
    return Recorded(details).ended_by(args.fence, TerminalOutcome.SUCCESS)


def was_cancelled(args: CancelExecutionArgs, details: Details) -> bool:
    return Recorded(details).ended_by(args.fence, TerminalOutcome.CANCELLED)


def was_failed(args: FailExecutionArgs, details: Details) -> RetryScheduled | TerminalFailed | None:
    recorded = Recorded(details)
    if recorded.ended_by(args.fence, TerminalOutcome.FAILED):
        return TerminalFailed()
    if recorded.released_by(args.fence, AttemptState.PENDING_RETRY_ATTEMPT) and recorded.delay_until:
        return RetryScheduled(delay_until=recorded.delay_until)
    return None


def recorded(
    args: CompleteExecutionArgs | FailExecutionArgs, details: Details
) -> ExecutionCompleted | RetryScheduled | TerminalFailed | None:
    """The first answer of the same ending; None if this call is another one."""
    if isinstance(args, FailExecutionArgs):
        return was_failed(args, details)
    if was_completed(args, details):
        return ExecutionCompleted(execution_id=args.execution_id, public_state=PublicState.COMPLETED)
    return None


def was_delayed(args: DelayExecutionArgs, details: Details) -> bool:
    recorded = Recorded(details)
    released = recorded.released_by(args.fence, AttemptState.ATTEMPT_INTERRUPTED)
    return released and recorded.delay_until == args.delay_until


def was_moved_to_waiting_children(args: MoveToWaitingChildrenArgs, details: Details) -> bool:
    recorded = Recorded(details)
    released = recorded.released_by(args.fence, AttemptState.ATTEMPT_INTERRUPTED)
    return released and recorded.public_state == PublicState.WAITING_CHILDREN
