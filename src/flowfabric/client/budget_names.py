"""Find a budget by its name."""

from __future__ import annotations

from typing import Final

from flowfabric.backends.ports import EngineBackend
from flowfabric.core.ids import BudgetId
from flowfabric.errors import InvalidInput, NotFound

_PAGE: Final = 100
_MOST_LOOKED_AT: Final = 1_000


async def named_budget(backend: EngineBackend, name: str, namespace: str | None) -> BudgetId:
    """The store's own budget of this name, then the namespace's, then the only other one."""
    for owner in dict.fromkeys((None, namespace)):
        budget_id = BudgetId.named(name, owner)
        if await _exists(backend, budget_id):
            return budget_id
    found = await _search(backend, name)
    if len(found) > 1:
        raise InvalidInput("budget", name, f"is the name of several budgets; use an id: {', '.join(found)}")
    if not found:
        raise NotFound(f"no budget is named {name!r}; `flowfabric budget ls` lists them", code="budget_not_found")
    return found[0]


async def _exists(backend: EngineBackend, budget_id: BudgetId) -> bool:
    try:
        await backend.get_budget_status(budget_id)
    except NotFound:
        return False
    return True


async def _search(backend: EngineBackend, name: str) -> list[BudgetId]:
    """Budgets of this name, of any owner."""
    found: list[BudgetId] = []
    after: BudgetId | None = None
    for _ in range(_MOST_LOOKED_AT // _PAGE):
        page = await backend.list_budgets(after=after, limit=_PAGE)
        found += [each for each in page if (await backend.get_budget_status(each)).name == name]
        if len(page) < _PAGE:
            break
        after = page[-1]
    return found
