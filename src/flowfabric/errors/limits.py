"""Errors of budgets and quotas."""

from __future__ import annotations

from flowfabric.errors.base import Limited


class BudgetExceeded(Limited):
    """A budget is used up; details: budget_id, dimension, used (reservations included), limit."""

    default_code = "budget_exceeded"
