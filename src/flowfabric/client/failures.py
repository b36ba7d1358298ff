"""Exceptions for callers that ask for a result when the execution ended without one.

ExecutionEnded      execution_id, task, attempts, reason, category
  ExecutionFailed     the last attempt failed or timed out, and no retry is left
  ExecutionCancelled  it was cancelled
  ExecutionExpired    its deadline passed
  ExecutionSkipped    a dependency was not met
FlowEnded           flow_id, state, failed_execution_id, reason

docs/howto/when-things-fail.md lists what ends in which of them.
"""

from __future__ import annotations

from typing import ClassVar

from flowfabric.core import contracts as c
from flowfabric.core.states import PublicState
from flowfabric.errors import Conflict, ErrorClass, Family


class ExecutionEnded(Conflict):
    """The execution ended without a result; the subclass says how."""

    default_code = "execution_ended"
    verb: ClassVar[str] = "ended"

    def __init__(self, snapshot: c.ExecutionSnapshot, task: str | None = None) -> None:
        self.execution_id = snapshot.execution_id
        self.task = task
        self.attempts = snapshot.total_attempt_count
        self.reason = snapshot.failure_reason  # of the last attempt that failed
        self.category = snapshot.failure_category
        super().__init__(self._text(), execution_id=str(self.execution_id), attempts=self.attempts)

    # These codes are not in the table of error codes, so family and class are given here.
    @property
    def family(self) -> Family:
        return Family.CONFLICT

    @property
    def error_class(self) -> ErrorClass:
        return ErrorClass.TERMINAL

    def _text(self) -> str:
        who = f"{self.task} {self.execution_id}" if self.task else str(self.execution_id)
        after = f" after {self.attempts} attempt{'s' * (self.attempts != 1)}"
        why = ": ".join(part for part in (self.category, self.reason) if part)
        return f"{who} {self.verb}{after}" + (f": {why}" if why else "")


class ExecutionFailed(ExecutionEnded):
    default_code = "execution_failed"
    verb = "failed"


class ExecutionCancelled(ExecutionEnded):
    default_code = "execution_cancelled"
    verb = "was cancelled"


class ExecutionExpired(ExecutionEnded):
    default_code = "execution_expired"
    verb = "passed its deadline"


class ExecutionSkipped(ExecutionEnded):
    default_code = "execution_skipped"
    verb = "was skipped"


_BY_STATE: dict[PublicState, type[ExecutionEnded]] = {
    PublicState.FAILED: ExecutionFailed,
    PublicState.CANCELLED: ExecutionCancelled,
    PublicState.EXPIRED: ExecutionExpired,
    PublicState.SKIPPED: ExecutionSkipped,
}


def failure_of(snapshot: c.ExecutionSnapshot, task: str | None = None) -> ExecutionEnded | None:
    """The exception for an execution that ended without a result; None otherwise."""
    kind = _BY_STATE.get(snapshot.public_state)
    return kind(snapshot, task) if kind else None


class FlowEnded(Conflict):
    """A flow failed or was cancelled."""

    default_code = "flow_ended"

    def __init__(self, flow: c.FlowSnapshot, reason: str | None = None) -> None:
        self.flow_id = flow.flow_id
        self.state = flow.public_flow_state
        self.failed_execution_id = flow.failed_execution_id  # an unhandled failure
        self.reason = reason or flow.cancel_reason
        verb = "was cancelled" if self.state is c.FlowState.CANCELLED else "failed"
        first = f" with {self.failed_execution_id}" if self.failed_execution_id and verb == "failed" else ""
        why = f": {self.reason}" if self.reason else ""
        super().__init__(f"flow {flow.flow_kind} {self.flow_id} {verb}{first}{why}", flow_id=str(self.flow_id))

    @property
    def family(self) -> Family:
        return Family.CONFLICT

    @property
    def error_class(self) -> ErrorClass:
        return ErrorClass.TERMINAL
