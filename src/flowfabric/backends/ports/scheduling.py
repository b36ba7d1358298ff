"""Scheduling: grants, blocks and due delays."""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId


class SchedulingPort(Protocol):
    """Decide which worker may start which execution, and when."""

    async def issue_claim_grant(self, args: c.IssueClaimGrantArgs) -> c.IssueClaimGrantResult:
        """Allow one worker to claim one eligible execution within a short time."""
        ...

    async def issue_reclaim_grant(self, args: c.IssueReclaimGrantArgs) -> c.IssueReclaimGrantResult:
        """Allow one worker to reclaim an execution after a lost lease. At the reclaim cap the execution fails."""
        ...

    async def block_execution_for_admission(self, args: c.BlockExecutionArgs) -> c.BlockExecutionResult:
        """Block an execution for a named reason: runnable -> blocked."""
        ...

    async def unblock_execution(self, args: c.UnblockExecutionArgs) -> c.UnblockExecutionResult:
        """Release a blocked execution: blocked -> waiting, or the wait that is still open."""
        ...

    async def promote_delayed(self, args: c.PromoteDelayedArgs) -> c.PromoteDelayedResult:
        """Make a delayed execution eligible when its delay is over: delayed -> waiting."""
        ...

    async def claim_for_worker(self, args: c.ClaimForWorkerArgs) -> c.ClaimForWorkerOutcome:
        """Grant the first execution of a lane that the worker can run. With several shards, the first of one shard."""
        ...

    async def scan_eligible_executions(self, args: c.ScanEligibleArgs) -> list[ExecutionId]:
        """List the eligible executions of a lane in one partition, in queue order."""
        ...

    async def block_route(self, args: c.BlockRouteArgs) -> c.BlockRouteOutcome:
        """Block an execution that no worker can run: runnable -> blocked. An operator's tool; claims never block."""
        ...
