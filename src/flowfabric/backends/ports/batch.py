"""Many items in one call, each with its own outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b


class BatchPort(Protocol):
    """Batched calls. Each item has its own outcome: a refused item is an error in the list, the others succeed."""

    async def submit_executions(self, batch: Sequence[c.CreateExecutionArgs]) -> list[b.SubmitOutcome]:
        """create_execution for each item, with one call per partition."""
        ...

    async def claim_executions(self, args: b.ClaimExecutionsArgs) -> list[b.ClaimOutcome]:
        """Claim up to `count` executions of a lane that the worker can run, or the named ones: waiting -> active.

        The first in queue order come first. A lane with several shards keeps that order within each shard.
        """
        ...

    async def finish_executions(self, args: b.FinishExecutionsArgs) -> b.FinishExecutionsResult:
        """Complete and fail executions, renew the leases of others, and claim the next ones, in one step."""
        ...

    async def run_due_work(self, args: b.RunDueWorkArgs) -> b.DueWork:
        """Apply what is due in one partition: expired leases, delays, timeouts, deadlines and waitpoints to close."""
        ...
