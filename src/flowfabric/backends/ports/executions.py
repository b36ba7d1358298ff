"""The life of an execution."""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c


class ExecutionPort(Protocol):
    """The life of an execution."""

    async def create_execution(self, args: c.CreateExecutionArgs) -> c.CreateExecutionResult:
        """Accept an execution: absent -> waiting, or delayed. The same id or idempotency key is a duplicate."""
        ...

    async def complete_execution(self, args: c.CompleteExecutionArgs) -> c.CompleteExecutionResult:
        """End the running attempt with success: active -> completed. Repeated with its fence it answers the same."""
        ...

    async def fail_execution(self, args: c.FailExecutionArgs) -> c.FailExecutionResult:
        """End the running attempt with a failure: active -> delayed until its retry, or failed."""
        ...

    async def cancel_execution(self, args: c.CancelExecutionArgs) -> c.CancelExecutionResult:
        """End an execution on request: any live state -> cancelled. Needs the fence or an operator's override."""
        ...

    async def delay_execution(self, args: c.DelayExecutionArgs) -> c.DelayExecutionResult:
        """Give the lease back and go on later with the same attempt: active -> delayed, or waiting when due."""
        ...

    async def move_to_waiting_children(self, args: c.MoveToWaitingChildrenArgs) -> c.MoveToWaitingChildrenResult:
        """Give the lease back until open dependencies are met: active -> waiting_children. Refused with none open."""
        ...

    async def expire_execution(self, args: c.ExpireExecutionArgs) -> c.ExpireExecutionResult:
        """Apply a time-out that is due: a deadline ends the execution, an attempt time-out fails the attempt."""
        ...

    async def replay_execution(self, args: c.ReplayExecutionArgs) -> c.ReplayExecutionResult:
        """Run a finished execution again: terminal -> waiting; a member may wait for its dependencies first."""
        ...

    async def change_priority(self, args: c.ChangePriorityArgs) -> c.ChangePriorityResult:
        """Move an eligible execution within its lane."""
        ...

    async def update_progress(self, args: c.UpdateProgressArgs) -> c.UpdateProgressResult:
        """Note how far the running attempt is."""
        ...

    async def set_execution_tags(self, args: c.SetExecutionTagsArgs) -> c.SetExecutionTagsResult:
        """Set labels of an execution."""
        ...
