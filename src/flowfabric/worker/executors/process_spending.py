"""Budgets in a CPU handler: the child asks the worker over the pipe, which uses its own context."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec

from flowfabric.core import contracts as c
from flowfabric.core.codec import decode_id
from flowfabric.errors import CODES, Detail, FlowFabricError, error_class_for
from flowfabric.worker.context.spending import Amounts, Hold, Purse, Usage


class Spend(msgspec.Struct, tag="spend", array_like=True):
    """A request of the child; `what` is a method of Purse."""

    what: str
    amounts: dict[str, int]
    budget: str | None = None
    hold: Hold | None = None
    on_crash: c.OnCrash = c.OnCrash.RETURN


class Spoken(msgspec.Struct, array_like=True):
    """The reply: the result of the method, or its error."""

    usage: Usage | None = None
    hold: Hold | None = None
    code: str = ""
    message: str = ""
    details: dict[str, Detail] = {}


class Pipe(Protocol):
    """The part of the pipe that is used here."""

    def recv_bytes(self) -> bytes: ...


_answer = msgspec.msgpack.Decoder(Spoken, dec_hook=decode_id)


class PipePurse:
    """In the child: one call after the other, each waits for its reply."""

    def __init__(self, pipe: Pipe, tell: Callable[[Spend], None]) -> None:
        self._pipe = pipe
        self._tell = tell

    async def use(self, amounts: Amounts, budget: str | None) -> Usage:
        return self._ask(Spend("use", dict(amounts), budget)).usage or Usage()

    async def hold(self, amounts: Amounts, budget: str | None, on_crash: c.OnCrash) -> Hold:
        hold = self._ask(Spend("hold", dict(amounts), budget, on_crash=on_crash)).hold
        assert hold is not None, "a hold that was not refused has an id"
        return hold

    def note(self, hold: Hold, spent: Amounts) -> None:
        self._ask(Spend("note", dict(spent), hold=hold))

    async def noted(self, hold: Hold) -> None:
        self._ask(Spend("noted", {}, hold=hold))

    def leave(self, hold: Hold, spent: Amounts) -> None:
        self._ask(Spend("settle", dict(spent), hold=hold))

    async def settle(self, hold: Hold, spent: Amounts) -> None:
        self._ask(Spend("settle", dict(spent), hold=hold))

    def _ask(self, spend: Spend) -> Spoken:
        self._tell(spend)
        spoken = _answer.decode(self._pipe.recv_bytes())
        if spoken.code:
            code = spoken.code if spoken.code in CODES else None
            raise error_class_for(spoken.code)(spoken.message, code=code, **spoken.details)
        return spoken


async def spoken(purse: Purse, spend: Spend) -> Spoken:
    """In the worker: serve a request of a child. An exception that ends the attempt also ends the process."""
    try:
        match spend.what, spend.hold:
            case "settle", Hold() as hold:
                await purse.settle(hold, spend.amounts)
                return Spoken()
            case "note", Hold() as hold:
                purse.note(hold, spend.amounts)
                return Spoken()
            case "noted", Hold() as hold:
                await purse.noted(hold)
                return Spoken()
            case "hold", _:
                return Spoken(hold=await purse.hold(spend.amounts, spend.budget, spend.on_crash))
            case _:
                return Spoken(usage=await purse.use(spend.amounts, spend.budget))
    except FlowFabricError as error:
        return Spoken(code=error.code, message=error.message, details=error.details)


OnSpend = Callable[[Spend], Coroutine[Any, Any, Spoken]]
