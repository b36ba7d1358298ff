"""Logs: what handlers log while they run."""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c


class LogPort(Protocol):
    """The log records of executions."""

    async def append_logs(self, args: c.AppendLogsArgs) -> c.AppendLogsResult:
        """Keep log records of an attempt, also of one that has ended. No state changes.

        Records are kept for all attempts of an execution together, within bounds of number, bytes and age; beyond
        them the oldest go. A repeated call keeps no record twice.
        """
        ...

    async def read_logs(self, args: c.ReadLogsArgs) -> c.LogPage:
        """List the log records of one execution, oldest first."""
        ...
