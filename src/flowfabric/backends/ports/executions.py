"""Executions: create, complete, fail, cancel, delay, replay."""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c


class ExecutionPort(Protocol):
    """The lifecycle of an execution."""

    async def create_execution(self, args: c.CreateExecutionArgs) -> c.CreateExecutionResult:
        """Accept an execution: absent -> waiting, or delayed. A known id or idempotency key returns the duplicate."""
        ...

    async def complete_execution(self, args: c.CompleteExecutionArgs) -> c.CompleteExecutionResult:
        """End the running attempt with success: active -> completed. Repeating it with its fence is safe."""
        ...

    async def fail_execution(self, args: c.FailExecutionArgs) -> c.FailExecutionResult:
        """End the running attempt with a failure: active -> delayed until the retry, or failed."""
        ...

    async def cancel_execution(self, args: c.CancelExecutionArgs) -> c.CancelExecutionResult:
        """End an execution on request: any live state -> cancelled. Needs the fence or an operator override."""
        ...

    async def delay_execution(self, args: c.DelayExecutionArgs) -> c.DelayExecutionResult:
        """Return the lease and continue the same attempt later: active -> delayed, or waiting when already due."""
        ...

    async def move_to_waiting_children(self, args: c.MoveToWaitingChildrenArgs) -> c.MoveToWaitingChildrenResult:
        """Return the lease until dependencies are resolved: active -> waiting_children. Refused when none is open."""
        ...

    async def expire_execution(self, args: c.ExpireExecutionArgs) -> c.ExpireExecutionResult:
        """Apply a due timeout: a deadline ends the execution, an attempt timeout fails the attempt."""
        ...

    async def replay_execution(self, args: c.ReplayExecutionArgs) -> c.ReplayExecutionResult:
        """Run a finished execution again: terminal -> waiting, or waiting_children for a member with dependencies."""
        ...

    async def retry_execution(self, args: c.RetryExecutionArgs) -> c.RetryExecutionResult:
        """Run it again with its recorded steps: failed, expired or cancelled -> waiting, or waiting_children."""
        ...

    async def fork_execution(self, args: c.ForkExecutionArgs) -> c.ForkExecutionResult:
        """Create an execution that begins with records of another one, which stays as it is: absent -> waiting."""
        ...

    async def change_priority(self, args: c.ChangePriorityArgs) -> c.ChangePriorityResult:
        """Change the priority of an eligible execution within its lane."""
        ...

    async def update_progress(self, args: c.UpdateProgressArgs) -> c.UpdateProgressResult:
        """Record the progress of the running attempt."""
        ...

    async def watch_execution(self, args: c.WatchExecutionArgs) -> c.WatchExecutionResult:
        """Let another execution be signalled when this one has ended; the engine does it, at least once."""
        ...

    async def set_execution_tags(self, args: c.SetExecutionTagsArgs) -> c.SetExecutionTagsResult:
        """Set tags of an execution."""
        ...
