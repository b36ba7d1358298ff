"""Admission: which limits an execution has, and the names under which it waits for them.

All limits of an execution apply, so the strictest decides. `lib/limits/limit_scopes.lua` and
`lib/limits/limit_queue.lua` state the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from flowfabric.core.contracts.limits import quotas as c


class Limits(NamedTuple):
    """The budgets and quota policies of one execution, in the order in which they were found."""

    budgets: tuple[str, ...] = ()
    quotas: tuple[str, ...] = ()


def limits_of(own: Limits, attached: Iterable[Limits]) -> Limits | None:
    """The execution's own limits, then those of its lane, namespace, itself and its flow; None when it has none."""
    found = [own, *attached]
    all_budgets = dict.fromkeys(each for limits in found for each in limits.budgets)
    all_quotas = dict.fromkeys(each for limits in found for each in limits.quotas)
    return Limits(tuple(all_budgets), tuple(all_quotas)) if all_budgets or all_quotas else None


def attach(ids: Sequence[str], limit_id: str) -> tuple[str, ...]:
    """The limits of a scope with one more, once."""
    return tuple(dict.fromkeys([*ids, limit_id]))


def detach(ids: Sequence[str], limit_id: str) -> tuple[str, ...]:
    return tuple(each for each in dict.fromkeys(ids) if each != limit_id)


def waiting_names(limits: Limits, names: Mapping[str, str], *, asks_budgets: bool = True) -> list[str]:
    """The names under which executions may wait for these limits, whatever the quotas count by."""
    found = [f"b:{each}" for each in limits.budgets] if asks_budgets else []
    for each in limits.quotas:
        found += [f"q:{each}", *(f"q:{each}:{kind}:{names.get(kind, '')}" for kind in c.QuotaKey)]
    return found
