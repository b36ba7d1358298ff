"""Records that pass between an execution's partition and its limits: offers to admit, and debts to settle."""

from __future__ import annotations

from typing import NamedTuple

from flowfabric.backends.valkey.library.calls import Fields, Value
from flowfabric.core.ids import BudgetId, ExecutionId, QuotaPolicyId


class Offer(NamedTuple):
    """An execution that a claim found, and whose limits must admit it first."""

    execution_id: ExecutionId
    ticket: int
    is_resume: bool
    quotas: tuple[QuotaPolicyId, ...]
    budgets: tuple[BudgetId, ...]
    names: tuple[str, str, str, str]  # namespace, lane, kind, concurrency key: a quota may count by any of them

    @classmethod
    def read(cls, row: Fields) -> Offer:
        """Decode a row of lua/lib/limits/offering.lua."""
        return cls(
            execution_id=ExecutionId(row.text(0)),
            ticket=row.number(1),
            is_resume=row.text(2) == "1",
            quotas=tuple(QuotaPolicyId(each) for each in _ids(row.text(3))),
            budgets=tuple(BudgetId(each) for each in _ids(row.text(4))),
            names=(row.text(5), row.text(6), row.text(7), row.text(8)),
        )

    @property
    def has_one_limit(self) -> bool:
        return len(self.quotas) == 1 and not self.budgets

    @property
    def admit_item(self) -> tuple[str | int, ...]:
        return (str(self.execution_id), self.ticket, int(self.is_resume), *self.names)

    @property
    def unused_item(self) -> tuple[str | int, ...]:
        return (str(self.execution_id), self.ticket, 1)


class Refused(NamedTuple):
    """Why an offered execution was not admitted, the limit it waits for, and when to check again."""

    offer: Offer
    limit: str  # the limit it waits for
    code: str
    detail: str
    look_in_ms: int
    has_nothing: bool = True  # no limit holds anything for it

    @property
    def hold_item(self) -> tuple[str | int, ...]:
        of = self.offer
        return (of.execution_id.uuid, of.ticket, self.limit, self.detail, self.look_in_ms, int(self.has_nothing))


class Debt(NamedTuple):
    """The slots and amounts that an ended lease or an expired offer owes; one entry of lua/lib/limits/handover.lua."""

    entry: str
    execution_id: ExecutionId
    owner: ExecutionId  # the execution that was admitted with the slot, which may have been passed on
    ticket: int
    lease_epoch: int
    is_used: bool
    wall_time_ms: int
    attempts: int
    limits: tuple[str, ...]
    reserved: tuple[str, ...]  # the budgets among them that hold, or may hold, a reservation
    continues: bool = False  # the attempt has not ended

    @classmethod
    def read(cls, entry: str) -> Debt:
        parts = entry.split(" ")
        execution_id, owner, ticket, epoch, is_used, ran_ms, attempts, quotas, budgets = parts[:9]
        settles = _ids(budgets) if is_used == "1" else []
        return cls(
            entry=entry,
            execution_id=ExecutionId(execution_id),
            owner=ExecutionId(owner),
            ticket=int(ticket),
            lease_epoch=int(epoch),
            is_used=is_used == "1",
            wall_time_ms=int(ran_ms),
            attempts=int(attempts),
            limits=(*(f"q:{each}" for each in _ids(quotas)), *(f"b:{each}" for each in settles)),
            reserved=tuple(_ids(parts[9])) if len(parts) > 9 else (),
            continues=len(parts) > 10 and parts[10] == "1",
        )

    @property
    def release_item(self) -> tuple[str | int, ...]:
        return (str(self.owner), self.ticket, int(not self.is_used))

    def stretch(self, budget_id: BudgetId) -> dict[str, Value]:
        return {
            "execution_id": self.execution_id,
            "lease_epoch": self.lease_epoch,
            "wall_time_ms": self.wall_time_ms,
            "attempts": self.attempts,
            "has_reserved": "1" if budget_id in self.reserved else None,
            "continues": "1" if self.continues else None,
        }


def _ids(csv: str) -> list[str]:
    return [] if csv in ("", "-") else csv.split(",")
