"""Grants, blocks and due delays."""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId


class SchedulingPort(Protocol):
    """Who may start what, and when."""

    async def issue_claim_grant(self, args: c.IssueClaimGrantArgs) -> c.IssueClaimGrantResult:
        """Let one worker claim one eligible execution within a short time."""
        ...

    async def issue_reclaim_grant(self, args: c.IssueReclaimGrantArgs) -> c.IssueReclaimGrantResult:
        """Let one worker take over an execution whose lease was lost; at the cap the execution fails instead."""
        ...

    async def block_execution_for_admission(self, args: c.BlockExecutionArgs) -> c.BlockExecutionResult:
        """Hold an execution back for a named reason: runnable -> blocked."""
        ...

    async def unblock_execution(self, args: c.UnblockExecutionArgs) -> c.UnblockExecutionResult:
        """Let a held-back execution go on: blocked -> waiting, or what it still waits for."""
        ...

    async def promote_delayed(self, args: c.PromoteDelayedArgs) -> c.PromoteDelayedResult:
        """Make a delayed execution eligible once its time has come: delayed -> waiting."""
        ...

    async def claim_for_worker(self, args: c.ClaimForWorkerArgs) -> c.ClaimForWorkerOutcome:
        """Grant the best eligible execution of a lane that the worker can run; with several shards, of one of them."""
        ...

    async def scan_eligible_executions(self, args: c.ScanEligibleArgs) -> list[ExecutionId]:
        """The executions of a lane in one partition that may start, the next one first."""
        ...

    async def block_route(self, args: c.BlockRouteArgs) -> c.BlockRouteOutcome:
        """Set an execution aside that no worker can run: runnable -> blocked. An operator's tool; no claim does it."""
        ...
