"""Many items in one call, each with its own outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b


class BatchPort(Protocol):
    """Many at once. Each item has its own outcome: a refused one is an error in the list and spoils no other."""

    async def submit_executions(self, batch: Sequence[c.CreateExecutionArgs]) -> list[b.SubmitOutcome]:
        """create_execution for each; one call a partition."""
        ...

    async def claim_executions(self, args: b.ClaimExecutionsArgs) -> list[b.ClaimOutcome]:
        """Claim up to `count` of a lane that the worker can run, or the named ones: waiting -> active.

        The best come first; with several shards, within each of them.
        """
        ...

    async def finish_executions(self, args: b.FinishExecutionsArgs) -> b.FinishExecutionsResult:
        """complete_execution and fail_execution mixed, renew_lease for others, and the next claim, in one step."""
        ...

    async def run_due_work(self, args: b.RunDueWorkArgs) -> b.DueWork:
        """Requeue lost leases, promote delays, apply time-outs and deadlines, close waitpoints of one partition."""
        ...
