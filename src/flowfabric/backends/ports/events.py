"""Events: read the log, wait for an execution, follow its events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.core.states import PublicState


class EventPort(Protocol):
    """The event log of executions."""

    async def read_events(self, args: c.ReadEventsArgs) -> c.EventPage:
        """Read the event log oldest first, of one partition or of all partitions merged by time."""
        ...

    async def history(self, execution_id: ExecutionId, *, cursor: str | None = None, limit: int = 100) -> c.EventPage:
        """The events of one execution, oldest first, as far back as the log of its partition reaches."""
        ...

    async def wait_for_execution(self, execution_id: ExecutionId, *, timeout_ms: int) -> PublicState | None:
        """Wait until the execution ends and return its final state; None after `timeout_ms`."""
        ...

    def tail_events(self, execution_id: ExecutionId, *, cursor: str | None = None) -> AsyncIterator[c.Event]:
        """Yield the events of one execution as they happen, until it ends. `cursor`: that of the last event seen."""
        ...
