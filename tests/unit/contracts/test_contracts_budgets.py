"""What the contracts of budgets refuse before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.ids import AttemptId, BudgetId, ExecutionId, LeaseId, ReservationId
from flowfabric.errors import InvalidInput

EXECUTION = ExecutionId("{fp:7}:550e8400-e29b-41d4-a716-446655440000")
FENCE = c.LeaseFence(lease_id=LeaseId.new(), lease_epoch=1, attempt_id=AttemptId.new())


def budget(**overrides: Any) -> c.CreateBudgetArgs:
    args: dict[str, Any] = {
        "budget_id": BudgetId.new(), "scope_type": "lane", "scope_id": "default", "dimensions": ("tokens", "calls"),
        "hard_limits": (100, 0), "soft_limits": (80, 5), **overrides,
    }  # fmt: skip
    return c.CreateBudgetArgs(**args)


def test_a_budget_has_defaults() -> None:
    made = budget()
    assert (made.on_hard_limit, made.reset_interval_ms) == (c.OnHardLimit.REJECT, 0)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"dimensions": ()}, "dimensions"),
        ({"dimensions": "tokens"}, "dimensions"),
        ({"dimensions": ("tokens", "tokens")}, "dimensions"),
        ({"dimensions": ("to kens", "calls")}, "dimensions"),
        ({"dimensions": (":period", "calls")}, "dimensions"),
        ({"dimensions": ("t" * 65, "calls")}, "dimensions"),
        ({"dimensions": tuple(f"d{at}" for at in range(65))}, "dimensions"),
        ({"hard_limits": (100,)}, "hard_limits"),
        ({"soft_limits": (1, 2, 3)}, "soft_limits"),
        ({"hard_limits": (100, -1)}, "hard_limits"),
        ({"hard_limits": (100, 1.5)}, "hard_limits"),
        ({"hard_limits": (True, 1)}, "hard_limits"),
        ({"hard_limits": (limits.MAX_AMOUNT + 1, 1)}, "hard_limits"),
        ({"soft_limits": (101, 0)}, "soft_limits"),
        ({"on_hard_limit": "explode"}, "on_hard_limit"),
        ({"reset_interval_ms": -1}, "reset_interval_ms"),
        ({"scope_type": "planet"}, "scope_type"),
        ({"scope_id": ""}, "scope_id"),
        ({"scope_type": "flow"}, "scope_id"),
        ({"scope_type": "execution", "scope_id": "x"}, "scope_id"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        budget(**given)
    assert caught.value.field == field


FLOW = "615c9552-2d54-4f95-a648-e3090540d9a1"


@pytest.mark.parametrize(
    ("scope_type", "scope_id"),
    [("namespace", "acme"), ("lane", "agents"), ("flow", FLOW), ("execution", str(EXECUTION))],
)
def test_a_scope_is_named_by_an_id_of_its_kind(scope_type: str, scope_id: str) -> None:
    assert budget(scope_type=scope_type, scope_id=scope_id).scope_id == scope_id


def test_64_dimensions_are_enough_and_allowed() -> None:
    names = tuple(f"d{at}" for at in range(64))
    assert len(budget(dimensions=names, hard_limits=(1,) * 64, soft_limits=(0,) * 64).dimensions) == 64


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"deltas": (1, 2)}, "deltas"),
        ({"deltas": (-1,)}, "deltas"),
        ({"dimensions": (), "deltas": ()}, "dimensions"),
        ({"dedup_key": ""}, "dedup_key"),
        ({"dedup_key": "x" * 257}, "dedup_key"),
    ],
)
def test_a_report_names_each_dimension_with_its_amount(given: dict[str, Any], field: str) -> None:
    args: dict[str, Any] = {"budget_id": BudgetId.new(), "dimensions": ("tokens",), "deltas": (1,), **given}
    with pytest.raises(InvalidInput) as caught:
        c.ReportUsageAdminArgs(**args)
    assert caught.value.field == field


def test_limits_that_change_are_checked_like_those_of_a_new_budget() -> None:
    with pytest.raises(InvalidInput, match="soft_limits"):
        c.SetBudgetLimitsArgs(budget_id=BudgetId.new(), dimensions=("a",), hard_limits=(1,), soft_limits=(2,))


def test_a_reservation_holds_something_and_may_be_settled_with_nothing() -> None:
    ids: dict[str, Any] = {
        "execution_id": EXECUTION, "budget_id": BudgetId.new(), "reservation_id": ReservationId.new(),
    }  # fmt: skip
    with pytest.raises(InvalidInput, match="dimensions"):
        c.ReserveBudgetArgs(**ids, fence=FENCE, dimensions=(), amounts=())
    assert c.SettleReservationArgs(**ids).amounts == ()
    with pytest.raises(InvalidInput, match="amounts"):
        c.SettleReservationArgs(**ids, dimensions=("tokens",))
