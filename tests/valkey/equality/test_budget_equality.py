"""Budgets in Lua and in `core/rules`: the same answers, totals, breaches, periods and events after every step."""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId
from flowfabric.core.rules.limits import budgets
from flowfabric.core.rules.limits.budgets import Budget, Limit
from flowfabric.core.rules.limits.periods import next_due
from flowfabric.core.rules.outcome import Refusal
from flowfabric.errors import InvalidInput
from tests.servers import TestServer
from tests.valkey.equality.budget_twins import Twins
from tests.valkey.equality.vm import MANY, NOW, SOME, RuleVm, rule_vm

_GLUE = """
function glue.next_due(def, now) return lib.period.next_due({def = def}, now) end
function glue.check_countable(used, list)
  local refusal = lib.spending.check_countable({used = used}, list)
  return refusal and refusal[2] or 'ok'
end
function glue.obstacle(def, hard, used, held)
  return {lib.budget.obstacle({def = def, hard = hard, used = used, held = held})}
end
function glue.amounts(kind, texts, count)
  local list, refusal = lib.amounts[kind](texts, count, 'deltas')
  if refusal then return {refused = refusal[2]} end
  local out = {}
  for i, each in ipairs(list) do out[i] = {each.name, each.amount} end
  return out
end
"""


@pytest.fixture(scope="module")
def vm(wire_server: TestServer) -> Iterator[RuleVm]:
    with rule_vm(wire_server, _GLUE) as opened:
        yield opened


_NAMES = st.sampled_from(["tokens", "calls", "attempts", "wall_time_ms"])
_AMOUNTS = st.dictionaries(_NAMES, st.integers(0, 12), min_size=1, max_size=3)
_WHO = st.sampled_from(["", "x", "y"])
_RUNNERS = st.sampled_from(["x", "y"])
_KEYS = st.sampled_from(["", "", "a", "b"])
_RESERVATIONS = st.sampled_from(["r1", "r2", "r3"])
_LIMITS = st.lists(
    st.builds(Limit, _NAMES, st.integers(0, 30), st.integers(0, 20)), min_size=1, max_size=4, unique_by=lambda e: e.name
)
_DEEDS = st.one_of(
    st.tuples(st.just("report"), _AMOUNTS, _WHO, _KEYS),
    st.tuples(st.just("spend"), _AMOUNTS, _WHO, _KEYS),
    st.tuples(st.just("reserve"), _AMOUNTS, _RUNNERS, _RESERVATIONS, st.integers(0, 3),
              st.sampled_from(c.OnCrash)),
    st.tuples(st.just("note"), _AMOUNTS, _RUNNERS, _RESERVATIONS),
    st.tuples(st.just("settle"), _AMOUNTS, _RUNNERS, _RESERVATIONS),
    st.tuples(st.just("end_stretch"), _RUNNERS, st.integers(0, 3), st.integers(0, 20), st.integers(0, 1),
              st.booleans()),
    st.tuples(st.just("release"), _RUNNERS),
    st.tuples(st.just("set_limits"), _LIMITS),
    st.tuples(st.just("reset")),
    st.tuples(st.just("pass_time"), st.integers(1, 2_500)),
    st.tuples(st.just("reset_if_due")),
)  # fmt: skip


@SOME
@given(_LIMITS, st.sampled_from(c.OnHardLimit), st.sampled_from([0, 1_000]), st.lists(_DEEDS, max_size=25))
def test_every_step_of_a_budget_is_the_same(
    vm: RuleVm, limits: list[Limit], policy: c.OnHardLimit, interval: int, deeds: list[tuple[Any, ...]]
) -> None:
    twins = Twins(vm, limits, policy, interval)
    for name, *args in deeds:
        getattr(twins, name)(*args)
        twins.compare()


@MANY
@given(
    interval=st.integers(0, 100_000), due=st.one_of(st.none(), st.integers(NOW - 10**7, NOW + 10**7)),
    now=st.integers(NOW - 10**6, NOW + 10**6),
)  # fmt: skip
def test_the_next_reset_is_on_the_same_schedule(vm: RuleVm, interval: int, due: int | None, now: int) -> None:
    stored = {"reset_interval_ms": str(interval)} | ({"next_reset_at": str(due)} if due is not None else {})
    assert vm.call("glue.next_due", stored, now) == next_due(Budget(reset_interval_ms=interval, next_reset_at=due), now)


_HUGE = st.integers(2**53 - 50, 2**53 - 1)


@MANY
@given(used=st.dictionaries(_NAMES, _HUGE | st.integers(0, 9)), amounts=st.dictionaries(_NAMES, st.integers(0, 60)))
def test_totals_end_where_whole_numbers_stop_being_exact(
    vm: RuleVm, used: dict[str, int], amounts: dict[str, int]
) -> None:
    listed = [{"name": name, "amount": amount} for name, amount in amounts.items()]
    refusal = budgets.check_countable(Budget(used=used), amounts)
    expected = refusal.code if isinstance(refusal, Refusal) else "ok"
    assert vm.call("glue.check_countable", used, listed) == expected


@pytest.mark.parametrize("count", [64, 65])
def test_a_budget_has_so_many_dimensions_at_most(vm: RuleVm, count: int) -> None:
    used, amounts = {f"d{i}": 1 for i in range(60)}, {f"d{i}": 1 for i in range(55, count)}
    listed = [{"name": name, "amount": amount} for name, amount in amounts.items()]
    is_refused = budgets.check_countable(Budget(used=used), amounts) is not None
    assert is_refused == (count > 64)
    assert vm.call("glue.check_countable", used, listed) == ("invalid_input" if is_refused else "ok")


@MANY
@given(
    hard=st.dictionaries(_NAMES, st.integers(1, 9)), used=st.dictionaries(_NAMES, st.integers(0, 9)),
    held=st.dictionaries(_NAMES, st.integers(0, 9)), breached=st.one_of(st.none(), _NAMES),
)  # fmt: skip
def test_the_same_budgets_let_nothing_start(
    vm: RuleVm, hard: dict[str, int], used: dict[str, int], held: dict[str, int], breached: str | None
) -> None:
    """Which of several full dimensions is named is not specified."""
    row = Budget(hard=hard, used=used, held=held, last_breach_dim=breached, breached_at=NOW if breached else None)
    stored = {"breached_at": str(NOW), "last_breach_dim": breached} if breached else {}
    found, expected = vm.call("glue.obstacle", stored, hard, used, held), budgets.obstacle(row)
    assert bool(found) == (expected is not None)
    if expected:
        candidates = [breached] if breached else [name for name in hard if not row.fits(name, 1)]
        assert found in [[name, row.taken(name), hard.get(name, 0)] for name in candidates]
        assert expected.dimension in candidates


_TEXTS = st.text(alphabet=string.ascii_letters + string.digits + "_.:- ä", max_size=66) | st.just("a" * 65)


@MANY
@given(name=_TEXTS, amount=st.integers(-2, 10**13) | st.sampled_from([9_999_999_999_999, 10_000_000_000_000]))
def test_the_same_names_and_amounts_are_accepted(vm: RuleVm, name: str, amount: int) -> None:
    found = vm.call("glue.amounts", "parallel", [name, str(amount)], 1)
    try:
        args = c.ReportUsageAdminArgs(budget_id=BudgetId.new(), dimensions=(name,), deltas=(amount,))
    except InvalidInput:
        assert found == {"refused": "invalid_input"}
    else:
        assert found == [[*args.dimensions, *args.deltas]]


@MANY
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), min_size=1, max_size=6))
def test_a_dimension_that_is_named_twice_has_the_sum(vm: RuleVm, pairs: list[tuple[str, int]]) -> None:
    total = budgets.total(pairs)
    texts = [str(part) for pair in pairs for part in pair]
    assert vm.call("glue.amounts", "pairs", texts, len(pairs)) == [[*each] for each in total.items()]
