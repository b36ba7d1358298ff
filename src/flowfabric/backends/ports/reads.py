"""Reads: one execution, or lists and counts of executions."""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId
from flowfabric.core.states import PublicState


class ReadPort(Protocol):
    """Read one execution. No call changes anything."""

    async def describe_execution(self, execution_id: ExecutionId) -> c.ExecutionSnapshot | None:
        """The read model with lease and attempt summaries; None when the execution does not exist."""
        ...

    async def get_execution(self, execution_id: ExecutionId) -> c.ExecutionInfo | None:
        """The whole state vector and all times; None when the execution does not exist."""
        ...

    async def get_execution_state(self, execution_id: ExecutionId) -> PublicState | None:
        """The public state alone; None when the execution does not exist."""
        ...

    async def get_execution_result(self, execution_id: ExecutionId) -> c.ExecutionResult | None:
        """The result of a completed execution; None before it completes."""
        ...

    async def read_execution_context(self, execution_id: ExecutionId) -> c.ExecutionContext:
        """Kind, payload and tags, for the handler."""
        ...

    async def explain_execution(self, execution_id: ExecutionId) -> c.Explanation:
        """All facts about why an execution does or does not run; `core.explain` turns them into a sentence."""
        ...

    async def list_attempts(
        self, execution_id: ExecutionId, *, from_index: int = 0, limit: int = 100
    ) -> list[c.AttemptRecord]:
        """List the attempts of an execution, oldest first."""
        ...


class ListingPort(Protocol):
    """List and count executions."""

    async def list_executions(self, args: c.ListExecutionsArgs) -> c.ListExecutionsPage:
        """List matching executions of all partitions by time of creation."""
        ...

    async def count_executions(self, lane_id: LaneId | None = None) -> list[c.LaneCounts]:
        """Count executions by lane and public state, with the age of the oldest waiting one."""
        ...
