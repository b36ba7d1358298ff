"""Leases: claim, renew, reclaim, revoke."""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c


class LeasePort(Protocol):
    """Who owns the running attempt."""

    async def claim_execution(self, args: c.ClaimExecutionArgs) -> c.ClaimExecutionResult:
        """Start a new attempt with a grant: waiting -> active."""
        ...

    async def claim_resumed_execution(self, args: c.ClaimResumedExecutionArgs) -> c.ClaimResumedExecutionResult:
        """Go on with an interrupted attempt, with a grant: waiting -> active."""
        ...

    async def issue_grant_and_claim(self, args: c.IssueGrantAndClaimArgs) -> c.IssueGrantAndClaimResult:
        """Claim in one step, a new attempt or the interrupted one: waiting -> active."""
        ...

    async def reclaim_execution(self, args: c.ReclaimExecutionArgs) -> c.ReclaimExecutionResult:
        """Start a new attempt where a lease was lost, with a grant: active -> active, or failed at the cap."""
        ...

    async def renew_lease(self, args: c.RenewLeaseArgs) -> c.RenewLeaseResult:
        """Extend the lease its holder still has."""
        ...

    async def mark_lease_expired_if_due(self, args: c.MarkLeaseExpiredArgs) -> c.MarkLeaseExpiredResult:
        """Note that a lease ran out, so that the execution can be reclaimed."""
        ...

    async def revoke_lease(self, args: c.RevokeLeaseArgs) -> c.RevokeLeaseResult:
        """Take the lease away, so that the execution can be reclaimed."""
        ...
