"""Delete finished executions, by the engine's settings or by their own retention."""

from __future__ import annotations

from flowfabric.core import contracts as c
from flowfabric.engine.service import Service, Surroundings


class Retention(Service):
    """Trims the whole store; one replica runs it. A long pass takes several runs."""

    name = "retention"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around, around.settings.retention_ms)
        self._cursor: str | None = None

    def cursor(self) -> str | None:
        return self._cursor

    def next_in_ms(self) -> float:
        # Within a pass it works half of the time, so that it keeps up and leaves room for other calls.
        return super().next_in_ms() if self._cursor is None else self.around.settings.budget_ms

    async def run_once(self) -> int:
        if not self.around.territory.has_duty(self.name):
            self._cursor = None
            return 0
        deadline, deleted, more = self.deadline_ms(), 0, True
        while more:
            deleted += await self._trim()
            more = self._cursor is not None and self.now_ms() < deadline
        if self._cursor is None:
            self.passed_at_ms = self.now_ms()
        return deleted

    async def _trim(self) -> int:
        settings = self.around.settings
        # After a failed call start from the beginning: the cursor itself may be bad.
        cursor, self._cursor = self._cursor, None
        result = await self.around.backend.trim_executions(
            c.TrimExecutionsArgs(
                older_than_ms=settings.retain_ms, keep_last=settings.keep_last, limit=settings.batch, cursor=cursor
            )
        )
        self._cursor = result.cursor
        return result.deleted
