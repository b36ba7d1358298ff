"""Events: read the log, or wait for the next line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.core.states import PublicState


class EventPort(Protocol):
    """What happened, and waiting for what will."""

    async def read_events(self, args: c.ReadEventsArgs) -> c.EventPage:
        """Lines of the event logs, oldest first: of one partition, or of all of them merged by time."""
        ...

    async def history(self, execution_id: ExecutionId, *, cursor: str | None = None, limit: int = 100) -> c.EventPage:
        """The events of one execution, oldest first, as far back as its partition's log goes."""
        ...

    async def wait_for_execution(self, execution_id: ExecutionId, *, timeout_ms: int) -> PublicState | None:
        """Wait until the execution ends and say how; None when it had not within `timeout_ms`."""
        ...

    def tail_events(self, execution_id: ExecutionId, *, cursor: str | None = None) -> AsyncIterator[c.Event]:
        """The events of one execution as they happen, until it has ended; `cursor` is that of the last one seen."""
        ...
