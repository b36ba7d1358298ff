"""Leases: claim, renew, reclaim, revoke."""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c


class LeasePort(Protocol):
    """Leases: the right of one worker to run an attempt."""

    async def claim_execution(self, args: c.ClaimExecutionArgs) -> c.ClaimExecutionResult:
        """Start a new attempt with a grant: waiting -> active."""
        ...

    async def claim_resumed_execution(self, args: c.ClaimResumedExecutionArgs) -> c.ClaimResumedExecutionResult:
        """Continue an interrupted attempt with a grant: waiting -> active."""
        ...

    async def issue_grant_and_claim(self, args: c.IssueGrantAndClaimArgs) -> c.IssueGrantAndClaimResult:
        """Claim without a grant, a new attempt or the interrupted one: waiting -> active."""
        ...

    async def reclaim_execution(self, args: c.ReclaimExecutionArgs) -> c.ReclaimExecutionResult:
        """Start a new attempt after a lost lease, with a grant: active -> active, or failed at the reclaim cap."""
        ...

    async def renew_lease(self, args: c.RenewLeaseArgs) -> c.RenewLeaseResult:
        """Extend a lease that its holder still owns."""
        ...

    async def mark_lease_expired_if_due(self, args: c.MarkLeaseExpiredArgs) -> c.MarkLeaseExpiredResult:
        """Record that a lease has expired, so that the execution can be reclaimed."""
        ...

    async def revoke_lease(self, args: c.RevokeLeaseArgs) -> c.RevokeLeaseResult:
        """Revoke a lease, so that the execution can be reclaimed."""
        ...
