"""The port of budgets; it is part of EngineBackend (backends/ports.py), and what is said there holds here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId, ExecutionId
from flowfabric.core.partition import Partition


class BudgetPort(Protocol):
    """What may be spent, and what was."""

    async def create_budget(self, args: c.CreateBudgetArgs) -> c.CreateBudgetResult:
        """Make a budget and attach it to its scope; one that exists is left as it is, and attached."""
        ...

    async def get_budget_status(self, budget_id: BudgetId) -> c.BudgetStatus:
        """A budget as it stands: limits, usage, reservations, breaches."""
        ...

    async def get_budget_ledger(self, budget_id: BudgetId, execution_id: ExecutionId) -> dict[str, int]:
        """What an execution has spent of a budget since its last reset, by dimension."""
        ...

    async def list_budgets(self, *, after: BudgetId | None = None, limit: int = 100) -> list[BudgetId]:
        """Budgets over all partitions, by id, after one of them."""
        ...

    async def report_usage_and_check(self, args: c.ReportUsageArgs) -> c.ReportUsageResult:
        """Count usage of an execution if it fits: all of it, or nothing and the breach is noted (G10)."""
        ...

    async def report_usage_admin(self, args: c.ReportUsageAdminArgs) -> c.ReportUsageResult:
        """The same without an execution."""
        ...

    async def record_spend(self, args: c.RecordSpendArgs) -> c.ReportUsageResult:
        """Count what was really spent, whatever the limits."""
        ...

    async def release_budget(self, args: c.ReleaseBudgetArgs) -> c.ReleaseBudgetResult:
        """Take back all that an execution has spent of a budget since its last reset."""
        ...

    async def reset_budget(self, args: c.ResetBudgetArgs) -> c.ResetBudgetResult:
        """Begin a new period: nothing is used, and a breach is over."""
        ...

    async def set_budget_limits(self, args: c.SetBudgetLimitsArgs) -> c.BudgetLimitsSet:
        """Raise, lower, add or lift limits of a budget in use."""
        ...

    async def reserve_budget(self, args: c.ReserveBudgetArgs) -> c.ReserveBudgetResult:
        """Hold amounts under a lease before they are spent; they return when the lease ends."""
        ...

    async def settle_reservation(self, args: c.SettleReservationArgs) -> c.ReportUsageResult:
        """End a reservation with what was really spent, which always counts, once."""
        ...


class BudgetListener(Protocol):
    """Hears of budgets that something is to be done about."""

    async def wait(self) -> frozenset[Partition]:
        """Return when there is something new since the last call: in which partitions. An empty set means in any."""
        ...


class BudgetUpkeepPort(Protocol):
    """What an engine does for budgets, in one partition of them, like {b:7}."""

    def listen_for_budgets(self) -> AbstractAsyncContextManager[BudgetListener]:
        """Hear of limits that are passed and of budgets with an interval, from the moment this is entered.

        The first wait returns at once with an empty set, as does the first one after a lost connection.
        """
        ...

    async def budget_partitions_in_use(self) -> list[Partition]:
        """The partitions that hold budgets."""
        ...

    async def reset_due_budgets(self, partition: Partition, *, limit: int = 100) -> c.DueBudgetsReset:
        """Reset those whose interval is over, on schedule however late, and let go what waited for them."""
        ...

    async def read_budget_notices(
        self, partition: Partition, *, done: Sequence[c.BudgetNotice] = (), limit: int = 100
    ) -> list[c.BudgetNotice]:
        """Limits that were passed and nobody has acted on, oldest first, after those `done` were taken off."""
        ...
