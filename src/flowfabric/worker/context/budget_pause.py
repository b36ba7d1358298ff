"""Suspends an execution over its budget until an operator decides with the signal `budget`.

The payload is true, false or null, or an object: approve, reason, and in `raise` new limits by dimension.
"""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from flowfabric.client.limits import Budgets
from flowfabric.core import contracts as c
from flowfabric.core.conditions import ByName, Single
from flowfabric.core.ids import BudgetId, WaitpointKey
from flowfabric.errors import Invalid
from flowfabric.worker.attempts.outcomes import Fail
from flowfabric.worker.durable.journal import Journal
from flowfabric.worker.durable.signal_waits import Terms, Wait, wait_until_over
from flowfabric.worker.durable.signals import Signal, WaitEnd

_logger: Final = logging.getLogger("flowfabric.worker")

SIGNAL: Final = "budget"


class Answer(msgspec.Struct, forbid_unknown_fields=True):
    """The decision: try again, perhaps with new hard limits, or give up."""

    approve: bool = True
    reason: str = ""
    limits: dict[str, int] = msgspec.field(default_factory=dict, name="raise")


async def decide(journal: Journal, name: str, budget_id: BudgetId) -> str | None:
    """None to try again, else the reason why not. The handler is unwound until the decision comes."""
    key = WaitpointKey(f"budget:{budget_id}")

    def pause() -> Wait:
        terms = Terms(c.SuspensionReasonCode.PAUSED_BY_BUDGET)
        return Wait(Single(key, ByName(SIGNAL)), (c.FreshWaitpoint.new(key),), terms)

    while True:
        end, _ = await wait_until_over(journal, "ctx.use", f"budget:{name}", pause)
        try:
            answer = _read(end)
            if answer.approve:
                await _raise_limits(journal, budget_id, answer.limits)
                return None
        except (Fail, Invalid) as error:
            _logger.warning("%s: unusable decision about budget %s; waiting for another: %s", name, budget_id, error)
            continue
        return f" ({answer.reason})" if answer.reason else ""


def _read(end: WaitEnd) -> Answer:
    """An operator who ended the wait without a signal means: try again."""
    if not end.told:
        return Answer()
    said: bool | Answer | None = Signal.read(end.told[0], bool | Answer | None).payload
    return said if isinstance(said, Answer) else Answer(approve=said is not False)


async def _raise_limits(journal: Journal, budget_id: BudgetId, wanted: dict[str, int]) -> None:
    """Only raise limits: every later pass reads the decision again, and limits may be higher by then. 0 is no limit."""
    budgets = Budgets(journal.services.backend)
    now = (await budgets.status(budget_id)).hard_limits if wanted else {}
    higher = {name: limit for name, limit in wanted.items() if name in now and (limit == 0 or limit > now[name])}
    if higher:
        await budgets.set_limits(budget_id, higher)
