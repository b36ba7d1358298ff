"""The ports of quotas and admission; they are part of EngineBackend (backends/ports.py), and what is said there holds.

Claims ask the limits of what they claim by themselves. An execution whose limits have no room is not claimed: it waits,
rate_limited, until they have. Its slots are owed from the step that stops its running; `drain_admissions` pays them.
"""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.ids import QuotaPolicyId
from flowfabric.core.partition import Partition


class QuotaPort(Protocol):
    """What may start within a window, and what may run at once."""

    async def create_quota_policy(self, args: c.CreateQuotaPolicyArgs) -> c.CreateQuotaPolicyResult:
        """Make a quota policy and attach it to its scope, if it has one; one that exists is left as it is."""
        ...

    async def configure_quota_policy(self, args: c.ConfigureQuotaPolicyArgs) -> None:
        """Change the limits of a quota policy in use."""
        ...

    async def get_quota_status(self, quota_policy_id: QuotaPolicyId, *, key: str = "") -> c.QuotaStatus:
        """A quota policy as it stands; where it counts keys apart, for one of them."""
        ...

    async def list_quota_policies(self, *, after: QuotaPolicyId | None = None, limit: int = 100) -> list[QuotaPolicyId]:
        """Quota policies over all partitions, by id, after one of them."""
        ...

    async def check_admission(self, args: c.CheckAdmissionArgs) -> c.CheckAdmissionResult:
        """Take a start within a quota, or learn why not: for schedulers of one's own."""
        ...

    async def release_admission(self, args: c.ReleaseAdmissionArgs) -> c.ReleaseAdmissionResult:
        """Give a slot back; repeated, or late, it frees nothing that is another's by then."""
        ...


class AdmissionPort(Protocol):
    """Between executions and their limits."""

    async def attach_limit(self, args: c.AttachLimitArgs) -> int:
        """Attach a budget or quota policy to a scope; in how many partitions."""
        ...

    async def detach_limit(self, args: c.AttachLimitArgs) -> int:
        """Take it off again."""
        ...

    async def drain_admissions(self, args: c.DrainAdmissionsArgs) -> c.AdmissionsDrained:
        """Pay what a partition owes to limits, take back lapsed offers, let go the next of what waits, in order."""
        ...


class ReconcilePort(Protocol):
    """What dead workers have left behind, found by looking at all there is."""

    async def limit_partitions_in_use(self) -> list[Partition]:
        """The partitions that hold quota policies, like {q:7}, or budgets, like {b:7}."""
        ...

    async def reconcile_limits(self, args: c.ReconcileLimitsArgs) -> c.LimitsReconciled:
        """Release slots and reservations that no record has, of some limits of a partition; what waits is let go."""
        ...

    async def forget_parked_claims(self, *, limit: int = 100) -> int:
        """Forget claims that wait for work and that no worker listens for, some of each partition; how many."""
        ...
