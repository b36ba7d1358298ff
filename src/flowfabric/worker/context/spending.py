"""Budgets in a handler: report usage, or reserve amounts before they are spent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId, ReservationId
from flowfabric.errors import BudgetExceeded, InvalidInput
from flowfabric.worker.context.awaited import AwaitedCalls, must_await

T = TypeVar("T")

Amounts: TypeAlias = Mapping[str, int]
Wait: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]  # waits for a call from a thread


class Usage(msgspec.Struct, frozen=True):
    """The result of a report: the soft limits that it crossed, by budget."""

    soft_breaches: dict[BudgetId, c.SoftBreach] = {}


class Hold(msgspec.Struct, frozen=True):
    """A reservation on some budgets under one id; on none if an earlier pass has settled it."""

    reservation_id: ReservationId
    budget_ids: tuple[BudgetId, ...] = ()


class Held:
    """The reserved amounts, and how much of them was used."""

    __slots__ = ("_noted", "_on_used", "amounts", "spent")

    def __init__(self, amounts: Amounts) -> None:
        self.amounts = dict(amounts)
        self.spent: dict[str, int] = {}
        self._on_used: Callable[[], None] | None = None
        self._noted: Callable[[], Awaitable[None]] | None = None

    def used(self, **amounts: int) -> None:
        """Report used amounts; several calls add up. They count in full, even beyond the reservation.

        The store gets them soon, so that they count even if the worker crashes within the block.
        """
        for name, amount in checked(amounts).items():
            self.spent[name] = self.spent.get(name, 0) + amount
        if self._on_used is not None:
            self._on_used()

    async def noted(self) -> None:
        """Wait until the store has what was reported so far, so that it counts whatever happens to the worker."""
        if self._noted is not None:
            await self._noted()


class Purse(Protocol):
    """Reports usage and makes reservations for a context."""

    async def use(self, amounts: Amounts, budget: str | None) -> Usage: ...

    async def hold(self, amounts: Amounts, budget: str | None, on_crash: c.OnCrash) -> Hold: ...

    def note(self, hold: Hold, spent: Amounts) -> None: ...

    async def noted(self, hold: Hold) -> None: ...

    def leave(self, hold: Hold, spent: Amounts) -> None: ...

    async def settle(self, hold: Hold, spent: Amounts) -> None: ...


class Reservation:
    """Amounts that are reserved for the length of a block."""

    __slots__ = ("_budget", "_held", "_hold", "_on_crash", "_purse", "_wait")

    def __init__(self, purse: Purse, held: Held, budget: str | None, on_crash: c.OnCrash, wait: Wait) -> None:
        self._purse = purse
        self._on_crash = on_crash
        self._held = held
        self._budget = budget
        self._wait = wait
        self._hold: Hold | None = None

    async def __aenter__(self) -> Held:
        hold = self._hold = await self._purse.hold(self._held.amounts, self._budget, self._on_crash)
        if hold.budget_ids:
            self._held._on_used = lambda: self._purse.note(hold, self._held.spent)
            self._held._noted = lambda: self._purse.noted(hold)
        return self._held

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self._held._on_used = self._held._noted = None
        if self._hold is None:
            return
        if error is None or isinstance(error, Exception):
            await self._purse.settle(self._hold, self._held.spent)
        else:
            self._leave(self._hold)

    def _leave(self, hold: Hold) -> None:
        """The attempt is over: the store counts what was noted, or all of it, and releases the rest."""
        if self._on_crash is c.OnCrash.RETURN:
            self._purse.leave(hold, self._held.spent)

    def __enter__(self) -> Held:
        self._wait(self.__aenter__())
        return self._held

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, Exception):
            self._wait(self.__aexit__(kind, error, trace))
        elif self._hold is not None:
            self._leave(self._hold)


class SpendingContext(AwaitedCalls, ABC):
    """Uses the budgets of the execution, its lane, its namespace and its flow, as of the first use."""

    __slots__ = ()

    @must_await
    async def use(self, budget: str | None = None, **amounts: int) -> Usage:
        """Report usage, `await ctx.use(tokens=120)`, to all budgets of the execution, or to one.

        If it exceeds a hard limit, BudgetExceeded names the budget and its numbers, or the budget's policy suspends
        the execution until an operator decides. Outside of steps a report counts once per attempt, however often the
        handler is run again after a wait.
        """
        return await self._purse.use(checked(amounts), budget)

    def reserve(
        self, budget: str | None = None, *, on_crash: c.OnCrash | Literal["return", "spend"] = "return", **amounts: int
    ) -> Reservation:
        """Reserve amounts before they are spent: `async with ctx.reserve(tokens=4000) as held: held.used(tokens=n)`.

        At the end of the block the used amounts count and the rest is released. If the attempt ends within the block,
        as in a crash, what it reported until then counts; with `on_crash="spend"` all that was reserved. In threads and
        processes use a plain `with`.
        """
        return Reservation(self._purse, Held(checked(amounts)), budget, _on_crash(on_crash), self.wait)

    @abstractmethod
    def wait(self, call: Coroutine[Any, Any, T]) -> T: ...

    @property
    @abstractmethod
    def _purse(self) -> Purse: ...


def checked(amounts: Amounts) -> dict[str, int]:
    """At least one amount, all whole numbers; the contract checks the names."""
    if not amounts:
        raise InvalidInput("amounts", amounts, "must name at least one dimension, like tokens=120")
    for name, amount in amounts.items():
        if not isinstance(amount, int) or isinstance(amount, bool) or amount < 0:
            raise InvalidInput(name, amount, "must be a whole number from 0")
    return dict(amounts)


def _on_crash(given: str) -> c.OnCrash:
    try:
        return c.OnCrash(given)
    except ValueError:
        raise InvalidInput("on_crash", given, f"must be one of {', '.join(c.OnCrash)}") from None


def exceeded(budget_id: BudgetId, breach: c.HardBreach | c.BudgetHeldByOthers, because: str = "") -> BudgetExceeded:
    """The error for a handler whose report or reservation a budget refused."""
    name, used, limit = breach.dimension, breach.current_usage, breach.hard_limit
    held = ", part of it reserved by others" if isinstance(breach, c.BudgetHeldByOthers) else ""
    message = f"budget {budget_id}: {name} is at {used} of {limit}{held}{because}; raise its limit or reset it"
    return BudgetExceeded(message, budget_id=str(budget_id), dimension=name, used=used, limit=limit)
