"""Waits: suspensions with their waitpoints, signals, and the secrets that sign waitpoint tokens."""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c


class SuspensionPort(Protocol):
    """Suspend executions until a signal, a timeout or an operator resumes them."""

    async def suspend_execution(self, args: c.SuspendExecutionArgs) -> c.SuspendExecutionResult:
        """Return the lease and wait: active -> suspended; stays active when early signals meet the condition.

        Repeating it with its ids or its idempotency key returns the same answer.
        """
        ...

    async def reject_signals(self, args: c.RejectSignalsArgs) -> c.RejectSignalsResult:
        """Reject signals that ended the last wait, and wait on: active -> suspended; or active if the others suffice.

        The wait keeps its waitpoints, tokens, condition and timeout. The event log names the rejected signals.
        """
        ...

    async def resume_execution(self, args: c.ResumeExecutionArgs) -> c.ResumeExecutionResult:
        """End a suspension regardless of its condition: suspended -> waiting, or delayed. The attempt continues."""
        ...

    async def expire_suspension(self, args: c.ExpireSuspensionArgs) -> c.ExpireSuspensionResult:
        """Apply a due timeout: suspended -> waiting or a terminal state; or keep waiting for an operator."""
        ...

    async def create_pending_waitpoint(self, args: c.CreatePendingWaitpointArgs) -> c.CreatePendingWaitpointResult:
        """Create a waitpoint before the wait, so that its token can be shared and early signals are kept."""
        ...

    async def close_waitpoint(self, args: c.CloseWaitpointArgs) -> c.CloseWaitpointResult:
        """Close a waitpoint to signals. Closing one in use takes an operator and ends the suspension."""
        ...

    async def list_suspended(self, args: c.ListSuspendedArgs) -> c.ListSuspendedPage:
        """List suspended executions of all partitions, the earliest timeout first."""
        ...

    async def read_waitpoint_token(self, args: c.ReadWaitpointTokenArgs) -> c.IssuedWaitpoint:
        """The token of an open waitpoint, for trusted callers that authorize its readers themselves."""
        ...

    async def list_pending_waitpoints(self, args: c.ListPendingWaitpointsArgs) -> c.ListPendingWaitpointsPage:
        """List the open waitpoints of one execution by id, without their tokens."""
        ...


class SignalPort(Protocol):
    """Signals: messages from outside to an execution."""

    async def deliver_signal(self, args: c.DeliverSignalArgs) -> c.SignalOutcome:
        """Deliver a signal with a waitpoint's token: kept while pending; suspended -> waiting when it suffices.

        Any problem with token or waitpoint gives the same refusal (G6). A payload that does not fit the form of the
        wait is refused with invalid_answer, and nothing is written.
        """
        ...

    async def signal_execution(self, args: c.SignalExecutionArgs) -> c.SignalOutcome:
        """Deliver a signal to the open waitpoint that accepts it: kept, or suspended -> waiting.

        It needs no token, so only trusted callers of the store may use it; a server that offers it must authorize
        its callers. Without such a waitpoint the refusal is target_not_signalable; with several, it lists their
        keys. A payload that does not fit the form of the wait is refused with invalid_answer.
        """
        ...

    async def list_resume_signals(self, args: c.ListResumeSignalsArgs) -> c.ListResumeSignalsPage:
        """How the last suspension of an execution ended, and the signals that ended it, in order of arrival."""
        ...


class SecretPort(Protocol):
    """The secrets that sign waitpoint tokens; every partition keeps a copy."""

    async def seed_waitpoint_hmac_secret(self, args: c.SeedWaitpointHmacSecretArgs) -> c.SeedOutcome:
        """Give a first secret to every partition that has none."""
        ...

    async def rotate_waitpoint_hmac_secret(
        self, args: c.RotateWaitpointHmacSecretArgs
    ) -> c.RotateWaitpointHmacSecretOutcome:
        """Sign with a new secret from now on, in one partition; tokens of the old one stay valid for its grace.

        With end_graces every token issued before is revoked.
        """
        ...

    async def rotate_waitpoint_hmac_secret_all(
        self, args: c.RotateWaitpointHmacSecretAllArgs
    ) -> c.RotateWaitpointHmacSecretAllReport:
        """Rotate in every partition. The report names the partitions that failed."""
        ...

    async def list_waitpoint_hmac_kids(self, args: c.ListWaitpointHmacKidsArgs) -> c.WaitpointHmacKids:
        """List the valid secrets of a partition by their kids."""
        ...
