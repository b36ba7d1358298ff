"""Admission: the limits of an execution, and the limit that keeps it from starting.

All limits of an execution apply, so the strictest decides. Budgets are checked first, because a check takes
nothing; then the quotas, each of which gives a slot. `lib/limits/limit_scopes.lua` and
`lib/limits/limit_queue.lua` state the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from flowfabric.core.contracts.limits import quotas as c
from flowfabric.core.rules import budgets, quotas
from flowfabric.core.rules.budgets import Budget
from flowfabric.core.rules.outcome import Refusal
from flowfabric.core.rules.quotas import Counts, Quota
from flowfabric.core.states import BlockingReason, EligibilityState

BUDGET_CHECK_MS = 30_000  # check a budget again after this time, even without news of it
QUOTA_CHECK_MS = 5_000


class Limits(NamedTuple):
    """The budgets and quota policies of one execution, in the order they were found."""

    budgets: tuple[str, ...] = ()
    quotas: tuple[str, ...] = ()


def limits_of(own: Limits, attached: Iterable[Limits]) -> Limits | None:
    """The execution's own limits, then those of its lane, namespace, itself and its flow; None without any."""
    found = [own, *attached]
    all_budgets = dict.fromkeys(each for limits in found for each in limits.budgets)
    all_quotas = dict.fromkeys(each for limits in found for each in limits.quotas)
    return Limits(tuple(all_budgets), tuple(all_quotas)) if all_budgets or all_quotas else None


def attach(ids: Sequence[str], limit_id: str) -> tuple[str, ...]:
    """Add a limit to those of a scope, once."""
    return tuple(dict.fromkeys([*ids, limit_id]))


def detach(ids: Sequence[str], limit_id: str) -> tuple[str, ...]:
    return tuple(each for each in dict.fromkeys(ids) if each != limit_id)


def waiting_names(limits: Limits, names: Mapping[str, str], *, asks_budgets: bool = True) -> list[str]:
    """The names under which executions may wait for these limits, for every way a quota counts."""
    found = [f"b:{each}" for each in limits.budgets] if asks_budgets else []
    for each in limits.quotas:
        found += [f"q:{each}", *(f"q:{each}:{kind}:{names.get(kind, '')}" for kind in c.QuotaKey)]
    return found


class Blocked(NamedTuple):
    """The limit an execution waits for, the reason, and the latest time of the next check."""

    limit: str
    code: str
    detail: str
    look_in_ms: int

    @property
    def eligibility(self) -> EligibilityState:
        is_budget = self.limit.startswith("b:")
        return EligibilityState.BLOCKED_BY_BUDGET if is_budget else EligibilityState.BLOCKED_BY_QUOTA

    @property
    def reason(self) -> BlockingReason:
        return BlockingReason.WAITING_FOR_BUDGET if self.limit.startswith("b:") else BlockingReason.WAITING_FOR_QUOTA


def blocked_by_budget(budget_id: str, budget: Budget) -> Blocked | None:
    found = budgets.obstacle(budget)
    if found is None:
        return None
    detail = f"budget {budget_id}: {found.dimension} is at {found.taken} of {found.limit}"
    return Blocked(f"b:{budget_id}", "budget_exceeded", detail, BUDGET_CHECK_MS)


def blocked_by_quota(quota_id: str, key: str, result: c.CheckAdmissionResult) -> Blocked | None:
    name = f"q:{quota_id}{key}"
    if isinstance(result, c.RateExceeded):
        detail = f"quota policy {quota_id}: the window is full"
        return Blocked(name, "rate_limit_exceeded", detail, result.retry_after_ms)
    if isinstance(result, c.ConcurrencyExceeded):
        detail = f"quota policy {quota_id}: all slots are taken"
        return Blocked(name, "concurrency_limit_exceeded", detail, QUOTA_CHECK_MS)
    return None


def first_obstacle(
    asked_budgets: Mapping[str, Budget], asked_quotas: Mapping[str, tuple[Quota, Counts]], ticket: int, now: int, *,
    is_resume: bool,
) -> Refusal | Blocked | None:  # fmt: skip
    """The first limit that does not admit a new ticket; None: all admit it, and each quota gives a slot."""
    for budget_id in sorted(asked_budgets):
        if blocked := blocked_by_budget(budget_id, asked_budgets[budget_id]):
            return blocked
    for quota_id in sorted(asked_quotas):
        quota, counts = asked_quotas[quota_id]
        answer = quotas.admit(quota, counts, None, ticket, now, is_resume=is_resume)
        if isinstance(answer, Refusal):
            return answer
        if blocked := blocked_by_quota(quota_id, counts.key, answer.result):
            return blocked
    return None
