"""Read executions: one, or lists and counts of them."""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId
from flowfabric.core.states import PublicState


class ReadPort(Protocol):
    """Looking without touching."""

    async def describe_execution(self, execution_id: ExecutionId) -> c.ExecutionSnapshot | None:
        """The read model with lease and attempt summaries; None when there is no such execution."""
        ...

    async def get_execution(self, execution_id: ExecutionId) -> c.ExecutionInfo | None:
        """The whole state vector and times; None when there is no such execution."""
        ...

    async def get_execution_state(self, execution_id: ExecutionId) -> PublicState | None:
        """The public state alone."""
        ...

    async def get_execution_result(self, execution_id: ExecutionId) -> c.ExecutionResult | None:
        """The result of a completed execution; None while there is none."""
        ...

    async def read_execution_context(self, execution_id: ExecutionId) -> c.ExecutionContext:
        """What a handler needs: kind, payload, labels."""
        ...

    async def explain_execution(self, execution_id: ExecutionId) -> c.Explanation:
        """All that bears on why an execution does or does not run; `scheduling.explain` makes a sentence of it."""
        ...

    async def list_attempts(
        self, execution_id: ExecutionId, *, from_index: int = 0, limit: int = 100
    ) -> list[c.AttemptRecord]:
        """The attempts of an execution, oldest first."""
        ...


class ListingPort(Protocol):
    """Which executions there are, and how many."""

    async def list_executions(self, args: c.ListExecutionsArgs) -> c.ListExecutionsPage:
        """Executions that match, over all partitions, by creation."""
        ...

    async def count_executions(self, lane_id: LaneId | None = None) -> list[c.LaneCounts]:
        """How many executions each lane, or this one, has in each public state, and how long the oldest waits."""
        ...
