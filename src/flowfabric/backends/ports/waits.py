"""The ports of waiting: suspensions with their waitpoints, signals, and the secrets that tokens are signed with.

They are part of EngineBackend (backends/ports.py), and what is said there holds here.
"""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c


class SuspensionPort(Protocol):
    """Waiting for the world outside."""

    async def suspend_execution(self, args: c.SuspendExecutionArgs) -> c.SuspendExecutionResult:
        """Give the lease back and wait at waitpoints: active -> suspended; or stay active when early signals suffice.

        Repeated with its ids, or with its idempotency key, it answers the same.
        """
        ...

    async def resume_execution(self, args: c.ResumeExecutionArgs) -> c.ResumeExecutionResult:
        """End a suspension whatever it waits for: suspended -> waiting, or delayed. The same attempt goes on."""
        ...

    async def expire_suspension(self, args: c.ExpireSuspensionArgs) -> c.ExpireSuspensionResult:
        """Apply a time-out that is due: suspended -> waiting or a terminal state, or it goes on waiting for a human."""
        ...

    async def create_pending_waitpoint(self, args: c.CreatePendingWaitpointArgs) -> c.CreatePendingWaitpointResult:
        """Make a waitpoint before the wait: its token can be handed out, and early signals are kept for it."""
        ...

    async def close_waitpoint(self, args: c.CloseWaitpointArgs) -> c.CloseWaitpointResult:
        """Let nothing more arrive at a waitpoint; an operator's close of one that is waited at ends the suspension."""
        ...

    async def list_suspended(self, args: c.ListSuspendedArgs) -> c.ListSuspendedPage:
        """The suspended executions over all partitions, the earliest time-out first."""
        ...

    async def read_waitpoint_token(self, args: c.ReadWaitpointTokenArgs) -> c.IssuedWaitpoint:
        """The token of an open waitpoint, for callers that decide themselves who may have it."""
        ...

    async def list_pending_waitpoints(self, args: c.ListPendingWaitpointsArgs) -> c.ListPendingWaitpointsPage:
        """The open waitpoints of one execution, by id, without their tokens."""
        ...


class SignalPort(Protocol):
    """What the world outside says."""

    async def deliver_signal(self, args: c.DeliverSignalArgs) -> c.SignalOutcome:
        """Tell a waitpoint something, with its token: kept while it is pending; suspended -> waiting when it suffices.

        Whatever is wrong with token or waitpoint, the refusal is the same (G6).
        """
        ...

    async def signal_execution(self, args: c.SignalExecutionArgs) -> c.SignalOutcome:
        """Tell an execution something at the open waitpoint that takes it: kept, or suspended -> waiting.

        It asks for no token, so it is for trusted callers of the store alone: a server that offers it to others
        must authorize them itself. No waitpoint takes it: target_not_signalable; several do: their keys are named.
        """
        ...

    async def list_resume_signals(self, args: c.ListResumeSignalsArgs) -> c.ListResumeSignalsPage:
        """How the last suspension of an execution ended, and the signals that ended it, as they arrived."""
        ...


class SecretPort(Protocol):
    """What waitpoint tokens are signed with; every partition has a copy of the secrets."""

    async def seed_waitpoint_hmac_secret(self, args: c.SeedWaitpointHmacSecretArgs) -> c.SeedOutcome:
        """Give every partition that has no secret its first one."""
        ...

    async def rotate_waitpoint_hmac_secret(
        self, args: c.RotateWaitpointHmacSecretArgs
    ) -> c.RotateWaitpointHmacSecretOutcome:
        """Sign with another secret from now on, in one partition; what the old one signed counts during its grace.

        With end_graces no token that is out counts any more.
        """
        ...

    async def rotate_waitpoint_hmac_secret_all(
        self, args: c.RotateWaitpointHmacSecretAllArgs
    ) -> c.RotateWaitpointHmacSecretAllReport:
        """The same in every partition; the report says which of them failed."""
        ...

    async def list_waitpoint_hmac_kids(self, args: c.ListWaitpointHmacKidsArgs) -> c.WaitpointHmacKids:
        """Which secrets count in a partition, by their kids."""
        ...
