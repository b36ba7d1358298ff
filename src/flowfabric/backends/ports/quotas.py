"""Quotas: rate and concurrency limits, and the admission of executions to them.

A claim checks the limits of its execution. An execution without room is not claimed: it waits in state
rate_limited until there is room. When it stops running it owes its slots back; `drain_admissions` returns
them.
"""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.ids import QuotaPolicyId
from flowfabric.core.partition import Partition


class QuotaPort(Protocol):
    """Limits on starts per window and on executions that run at once."""

    async def create_quota_policy(self, args: c.CreateQuotaPolicyArgs) -> c.CreateQuotaPolicyResult:
        """Create a quota policy and attach it to its scope, if it has one. An existing policy is not changed."""
        ...

    async def configure_quota_policy(self, args: c.ConfigureQuotaPolicyArgs) -> None:
        """Change the limits of an existing quota policy."""
        ...

    async def get_quota_status(self, quota_policy_id: QuotaPolicyId, *, key: str = "") -> c.QuotaStatus:
        """The current use of a quota policy, for one key when the policy counts keys separately."""
        ...

    async def list_quota_policies(self, *, after: QuotaPolicyId | None = None, limit: int = 100) -> list[QuotaPolicyId]:
        """List quota policies of all partitions by id, starting after `after`."""
        ...

    async def check_admission(self, args: c.CheckAdmissionArgs) -> c.CheckAdmissionResult:
        """Take one start from a quota, or return the reason for the refusal. For custom schedulers."""
        ...

    async def release_admission(self, args: c.ReleaseAdmissionArgs) -> c.ReleaseAdmissionResult:
        """Return a slot. A repeated or late release never frees the slot of another execution."""
        ...


class AdmissionPort(Protocol):
    """Attach limits to scopes and admit waiting executions."""

    async def attach_limit(self, args: c.AttachLimitArgs) -> int:
        """Attach a budget or quota policy to a scope. Returns in how many partitions it was attached."""
        ...

    async def detach_limit(self, args: c.AttachLimitArgs) -> int:
        """Detach a budget or quota policy from a scope."""
        ...

    async def drain_admissions(self, args: c.DrainAdmissionsArgs) -> c.AdmissionsDrained:
        """Return the slots a partition owes, withdraw expired offers, and admit waiting executions in order."""
        ...


class ReconcilePort(Protocol):
    """Release what dead workers left behind, by comparing limits with execution records."""

    async def limit_partitions_in_use(self) -> list[Partition]:
        """The partitions that hold quota policies, like {q:7}, or budgets, like {b:7}."""
        ...

    async def reconcile_limits(self, args: c.ReconcileLimitsArgs) -> c.LimitsReconciled:
        """Release slots and reservations that have no execution record, and admit waiting executions."""
        ...

    async def forget_parked_claims(self, *, limit: int = 100) -> int:
        """Delete parked claims without a listening worker, some per partition. Returns how many were deleted."""
        ...
