"""Budgets: limits on spending, usage, reservations, resets."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId, ExecutionId
from flowfabric.core.partition import Partition


class BudgetPort(Protocol):
    """Budgets: create them, spend from them, reserve, reset."""

    async def create_budget(self, args: c.CreateBudgetArgs) -> c.CreateBudgetResult:
        """Create a budget and attach it to its scope. An existing budget keeps its limits and is attached."""
        ...

    async def get_budget_status(self, budget_id: BudgetId) -> c.BudgetStatus:
        """The current limits, usage, reservations and breaches of a budget."""
        ...

    async def get_budget_ledger(self, budget_id: BudgetId, execution_id: ExecutionId) -> dict[str, int]:
        """The amounts an execution has spent from a budget since its last reset, by dimension."""
        ...

    async def list_budgets(self, *, after: BudgetId | None = None, limit: int = 100) -> list[BudgetId]:
        """List budgets of all partitions by id, starting after `after`."""
        ...

    async def report_usage_and_check(self, args: c.ReportUsageArgs) -> c.ReportUsageResult:
        """Record usage of an execution if all of it fits; otherwise record only the breach (G10)."""
        ...

    async def report_usage_admin(self, args: c.ReportUsageAdminArgs) -> c.ReportUsageResult:
        """report_usage_and_check without an execution, for operators."""
        ...

    async def record_spend(self, args: c.RecordSpendArgs) -> c.ReportUsageResult:
        """Record an amount that was already spent, even beyond the limits."""
        ...

    async def release_budget(self, args: c.ReleaseBudgetArgs) -> c.ReleaseBudgetResult:
        """Return everything an execution has spent from a budget since its last reset."""
        ...

    async def reset_budget(self, args: c.ResetBudgetArgs) -> c.ResetBudgetResult:
        """Start a new period: usage returns to zero and a breach ends."""
        ...

    async def set_budget_limits(self, args: c.SetBudgetLimitsArgs) -> c.BudgetLimitsSet:
        """Raise, lower, add or remove limits of an existing budget."""
        ...

    async def reserve_budget(self, args: c.ReserveBudgetArgs) -> c.ReserveBudgetResult:
        """Hold amounts under a lease before they are spent. They return to the budget when the lease ends."""
        ...

    async def settle_reservation(self, args: c.SettleReservationArgs) -> c.ReportUsageResult:
        """End a reservation and record the amount really spent, once, even beyond the limits."""
        ...


class BudgetListener(Protocol):
    """Notifies an engine of budgets that need attention."""

    async def wait(self) -> frozenset[Partition]:
        """Wait for news since the last call and return its partitions. An empty set means: check all of them."""
        ...


class BudgetUpkeepPort(Protocol):
    """The engine's calls for budgets; a partition of budgets looks like {b:7}."""

    def listen_for_budgets(self) -> AbstractAsyncContextManager[BudgetListener]:
        """Subscribe to exceeded limits and to budgets that reset by interval. Messages count from entry on.

        The first wait returns an empty set at once, and so does the first one after a lost connection.
        """
        ...

    async def budget_partitions_in_use(self) -> list[Partition]:
        """The partitions that hold budgets."""
        ...

    async def reset_due_budgets(self, partition: Partition, *, limit: int = 100) -> c.DueBudgetsReset:
        """Reset budgets whose interval is over, on their schedule even when late, and release waiting executions."""
        ...

    async def read_budget_notices(
        self, partition: Partition, *, done: Sequence[c.BudgetNotice] = (), limit: int = 100
    ) -> list[c.BudgetNotice]:
        """Exceeded limits that await action, oldest first. `done` notices are removed before reading."""
        ...
