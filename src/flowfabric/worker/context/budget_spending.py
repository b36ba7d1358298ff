"""Reports and reservations of a handler: each counts once, however often the handler is run again.

A report is identified by its amounts and by how many equal reports came before it in this pass. The store counts each
report of an attempt once. Reports inside a step count every time the step runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import Any, Final, TypeVar
from uuid import uuid4

from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId, Namespace, ReservationId
from flowfabric.errors import BudgetExceeded
from flowfabric.worker.attempts.attempt import Stop
from flowfabric.worker.context.budget_pause import decide
from flowfabric.worker.context.spending import Amounts, Hold, Usage, exceeded
from flowfabric.worker.context.spending_notes import Notes
from flowfabric.worker.context.spent_before import Refusal, Spent
from flowfabric.worker.durable.journal import Journal, is_in_step
from flowfabric.worker.durable.occurrences import Occurrence

T = TypeVar("T")

_logger: Final = logging.getLogger("flowfabric.worker")


class WorkerPurse:
    """The spending of one pass."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._spent = Spent(journal)
        self._budget_ids: tuple[BudgetId, ...] | None = None
        self._namespace: Namespace | None = None  # of the execution, once its budgets are known
        self._holds: dict[ReservationId, Occurrence] = {}
        self._notes = Notes(self._send_note, self._settle_late, journal.services.tasks)

    async def use(self, amounts: Amounts, budget: str | None) -> Usage:
        at = await self._take("use", amounts, budget)
        if at is not None and self._spent.has(at):
            return Usage()
        try:
            usage = await self._report(at, amounts, budget)
        except BaseException as error:
            self._not_spent(at, error)
            raise
        if at is not None:
            self._spent.note(at)
        return usage

    async def _report(self, at: Occurrence | None, amounts: Amounts, budget: str | None) -> Usage:
        """Report to all budgets, and again after a limit was raised. Budgets recognize a repeated report by its key."""
        attempt, budgets, usage = self._journal.attempt, await self._budgets(budget), Usage()
        key = f"{attempt.execution_id}/{uuid4() if at is None else f'{attempt.attempt_index}/{at}'}"
        while True:
            results = await self._together([self._report_to(each, amounts, key) for each in budgets])
            told = dict(zip(budgets, results, strict=True))
            for budget_id, result in told.items():
                if isinstance(result, c.SoftBreach) and result.is_crossing:
                    usage.soft_breaches[budget_id] = result
            refused = [(each, said) for each, said in told.items() if isinstance(said, c.HardBreach)]
            if not refused:
                return usage
            # Ask an operator only if no budget refuses outright.
            await self._make_room(at, *min(refused, key=lambda each: each[1].on_hard_limit == c.OnHardLimit.SUSPEND))

    async def _report_to(self, budget_id: BudgetId, amounts: Amounts, key: str) -> c.ReportUsageResult:
        args = c.ReportUsageArgs(
            budget_id=budget_id,
            execution_id=self._journal.attempt.execution_id,
            dimensions=tuple(amounts),
            deltas=tuple(amounts.values()),
            dedup_key=key,
            namespace=self._namespace,
        )
        return _told(budget_id, await self._journal.services.backend.report_usage_and_check(args))

    async def hold(self, amounts: Amounts, budget: str | None, on_crash: c.OnCrash) -> Hold:
        at = await self._take("reserve", amounts, budget)
        if at is not None and self._spent.has(at):
            return Hold(ReservationId.new())
        try:
            hold = await self._hold(at, amounts, await self._budgets(budget), on_crash)
        except BaseException as error:
            self._not_spent(at, error)
            raise
        if at is not None:
            self._holds[hold.reservation_id] = at
        return hold

    async def _hold(
        self, at: Occurrence | None, amounts: Amounts, budgets: tuple[BudgetId, ...], on_crash: c.OnCrash
    ) -> Hold:
        """Reserve on all budgets or on none, and again after a limit was raised."""
        while True:
            hold = Hold(ReservationId.new(), budgets)
            for number, budget_id in enumerate(budgets):
                (result,) = await self._together([self._hold_on(budget_id, hold, amounts, on_crash)])
                if isinstance(result, c.HardBreach | c.BudgetHeldByOthers):
                    await self._settle_all(Hold(hold.reservation_id, budgets[:number]), {})
                    await self._make_room(at, budget_id, result)
                    break
            else:
                return hold

    async def _hold_on(
        self, budget_id: BudgetId, hold: Hold, amounts: Amounts, on_crash: c.OnCrash
    ) -> c.ReserveBudgetResult:
        args = c.ReserveBudgetArgs(
            execution_id=self._journal.attempt.execution_id,
            fence=self._journal.attempt.fence,
            budget_id=budget_id,
            reservation_id=hold.reservation_id,
            dimensions=tuple(amounts),
            amounts=tuple(amounts.values()),
            namespace=self._namespace,
            on_crash=on_crash,
        )
        return await self._journal.services.backend.reserve_budget(args)

    def note(self, hold: Hold, spent: Amounts) -> None:
        """Send the totals soon, also from threads: they count if the attempt ends without settling."""
        self._journal.services.loop.call_soon_threadsafe(self._notes.add, hold, dict(spent))

    async def settle(self, hold: Hold, spent: Amounts) -> None:
        at = self._holds.pop(hold.reservation_id, None)
        self._notes.drop(hold)
        await self._settle_all(hold, spent)
        if at is not None:
            self._spent.note(at)

    async def noted(self, hold: Hold) -> None:
        await self._notes.sent(hold)

    def leave(self, hold: Hold, spent: Amounts) -> None:
        """Settle in the background if the attempt has ended; one that continues later reports again."""
        attempt = self._journal.attempt
        if attempt.suspension is None and attempt.stop is not Stop.DRAINING:
            self._journal.services.loop.call_soon_threadsafe(self._notes.end, hold, dict(spent))

    async def _send_note(self, hold: Hold, spent: Amounts) -> None:
        await asyncio.gather(*(self._settle_on(each, hold, spent, ends=False) for each in hold.budget_ids))

    async def _settle_late(self, hold: Hold, spent: Amounts) -> None:
        await asyncio.gather(*(self._settle_on(each, hold, spent) for each in hold.budget_ids))

    async def _settle_all(self, hold: Hold, spent: Amounts) -> None:
        await self._together([self._settle_on(each, hold, spent) for each in hold.budget_ids])

    async def _settle_on(self, budget_id: BudgetId, hold: Hold, spent: Amounts, *, ends: bool = True) -> None:
        args = c.SettleReservationArgs(
            execution_id=self._journal.attempt.execution_id,
            budget_id=budget_id,
            reservation_id=hold.reservation_id,
            dimensions=tuple(spent),
            amounts=tuple(spent.values()),
            namespace=self._namespace,
            ends=ends,
        )
        _told(budget_id, await self._journal.services.backend.settle_reservation(args))

    async def _make_room(
        self, at: Occurrence | None, budget_id: BudgetId, breach: c.HardBreach | c.BudgetHeldByOthers
    ) -> None:
        """Return if an operator decides to try again; raise otherwise."""
        if isinstance(breach, c.BudgetHeldByOthers) or breach.on_hard_limit != c.OnHardLimit.SUSPEND:
            raise exceeded(budget_id, breach)
        if at is None:
            raise exceeded(budget_id, breach, " and a step cannot wait for an answer")
        refusal = await decide(self._journal, str(at), budget_id)
        if refusal is not None:
            raise exceeded(budget_id, breach, f" and the answer was no{refusal}")

    # Occurrences.

    async def _take(self, what: str, amounts: Amounts, budget: str | None) -> Occurrence | None:
        """The occurrence of this report in the handler's pass; None inside a step."""
        self._journal.attempt.check()
        if is_in_step(self._journal):
            return None
        await self._spent.loaded()
        return self._spent.take(what, amounts, budget)

    def _not_spent(self, at: Occurrence | None, error: BaseException) -> None:
        """Record a refusal for later passes; after any other error the report did not happen."""
        if at is None:
            return
        if isinstance(error, BudgetExceeded):
            self._spent.note(at, Refusal(error.message, error.details))
        else:
            self._journal.give_back(at)

    async def _budgets(self, budget: str | None) -> tuple[BudgetId, ...]:
        if budget is not None and BudgetId.fits(budget):
            return (BudgetId(budget),)
        if self._budget_ids is None:
            found = self._journal.services.backend.explain_execution(self._journal.attempt.execution_id)
            known = await self._journal.ask(found)
            self._budget_ids, self._namespace = known.budget_ids, known.namespace
        return self._budget_ids if budget is None else (self._named(budget, self._budget_ids),)

    def _named(self, name: str, known: tuple[BudgetId, ...]) -> BudgetId:
        """The budget of this name: one that the execution has, of its namespace or of the store."""
        of_namespace = BudgetId.named(name, self._namespace)
        return of_namespace if of_namespace in known else BudgetId.of(name)

    async def _together(self, calls: Sequence[Awaitable[T]]) -> list[T]:
        """Make calls in parallel with steps, but not while the attempt is being suspended."""

        async def answers() -> list[Any]:
            return await asyncio.gather(*calls)

        async with self._journal.gate.beside():
            try:
                self._journal.attempt.check()
            except BaseException:
                for call in calls:
                    call.close()  # type: ignore[attr-defined]
                raise
            return await self._journal.ask(answers())


def _told(budget_id: BudgetId, result: c.ReportUsageResult) -> c.ReportUsageResult:
    """Log a crossed soft limit; the store reports each crossing once."""
    if isinstance(result, c.SoftBreach) and result.is_crossing:
        numbers = f"{result.current_usage}, above its soft limit of {result.soft_limit}"
        _logger.warning("budget %s: %s is at %s", budget_id, result.dimension, numbers)
    return result
