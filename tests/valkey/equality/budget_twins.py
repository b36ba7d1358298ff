"""One budget twice: in the store, where Lua decides, and as a row, which `core/rules` decides about."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flowfabric.core import contracts as c
from flowfabric.core.rules.limits import budgets, periods, reservations
from flowfabric.core.rules.limits.budgets import Budget, Limit, Spend
from flowfabric.core.rules.limits.periods import Ledger
from flowfabric.core.rules.limits.reservations import Hold, Settlement
from flowfabric.core.rules.outcome import Changes, Refusal
from tests.valkey.equality.vm import NOW, RuleVm
from tests.valkey.wire.wire import Reply

TAG = "{b:7}"
_NUMBERS = ("breached_at", "last_breach_at", "next_reset_at", "last_reset_at", "last_updated_at")
_ANSWERS: dict[str, Any] = {
    "OK": c.UsageCounted,
    "ALREADY_APPLIED": c.UsageAlreadyApplied,
    "DUPLICATE": c.BudgetReserved,
    "SOFT_BREACH": lambda name, used, limit, crossing: c.SoftBreach(
        dimension=name, current_usage=int(used), soft_limit=int(limit), is_crossing=crossing == "1"
    ),
    "HARD_BREACH": lambda name, used, limit, policy: c.HardBreach(
        dimension=name, current_usage=int(used), hard_limit=int(limit), on_hard_limit=policy
    ),
    "HELD": lambda name, used, limit, _: c.BudgetHeldByOthers(
        dimension=name, current_usage=int(used), hard_limit=int(limit)
    ),
}


def answer(reply: Reply) -> Any:
    """A reply of the store as the contracts state it; a refusal as its code."""
    return reply[1] if reply[0] == 0 else _ANSWERS[reply[1]](*reply[2:])


class Twins:
    def __init__(self, vm: RuleVm, limits: list[Limit], policy: c.OnHardLimit, interval: int) -> None:
        self.vm, self.id, self.now = vm, str(uuid.uuid4()), NOW
        self.key = f"ff:budget:{TAG}:{self.id}"
        vm.client.delete(f"ff:part:{TAG}:events", f"ff:idx:{TAG}:budget_resets")
        vm.set_clock(self.now)
        names, hard, soft = zip(*limits, strict=True)
        made = vm.fcall("create_budget", [self.key], self.id, "", "", "", policy, "", interval, 0, len(names), *names,
                        *hard, *soft)  # fmt: skip
        assert made[0] == 1, made
        self.row = Budget(
            hard={each.name: each.hard for each in limits if each.hard},
            soft={each.name: each.soft for each in limits if each.soft},
            on_hard_limit=policy, reset_interval_ms=interval,
            next_reset_at=self.now + interval if interval else None, last_updated_at=self.now,
        )  # fmt: skip
        self.ledgers: dict[str, Ledger] = {}
        self.holds: dict[str, dict[str, Hold]] = {}
        self.closed: dict[str, int] = {}
        self.seen: set[str] = set()
        self.crashed: dict[str, Mapping[str, int]] = {}  # what counted for reservations that were not settled
        self.told: list[str] = []

    def pass_time(self, ms: int) -> None:
        self.now += ms
        self.vm.set_clock(self.now)

    # What a rule decided.

    def apply(self, changes: Changes) -> None:
        self.row = changes.apply_to(self.row)
        self.told += [f"{line.event} {TAG}:{self.id}  0 {line.outcome}" for line in changes.events]

    def take(self, step: Refusal | Spend[Any], who: str = "", key: str = "") -> Any:
        if isinstance(step, Refusal):
            return step.code
        self.apply(step.changes)
        if who and step.counted:
            self.ledgers[who] = self.ledgers.get(who, Ledger()).add(self.row, step.counted)
        if key:
            self.seen.add(key)
        if isinstance(step, Settlement):
            for each in step.dropped:
                del self.holds[who][each]
            self.crashed |= step.crashed
            self.seen -= set(step.crashed)
        return step.result

    # The same operation on both.

    def report(self, amounts: dict[str, int], who: str, key: str) -> None:
        full_key = f"ff:usagededup:{TAG}:{self.id}:{key}" if key else ""
        reply = self.vm.fcall("report_usage_and_check", ["", "", self.key], len(amounts), *amounts, *amounts.values(),
                              0, full_key, who)  # fmt: skip
        step = budgets.report(self.row, amounts, self.now, is_repeated=key in self.seen)
        is_counted = isinstance(step, Spend) and not isinstance(step.result, c.HardBreach)
        assert answer(reply) == self.take(step, who, key if is_counted else "")

    def spend(self, amounts: dict[str, int], who: str, key: str) -> None:
        full_key = f"ff:usagededup:{TAG}:{self.id}:{key}" if key else ""
        pairs = [part for pair in amounts.items() for part in pair]
        reply = self.vm.fcall("record_spend", ["", "", self.key, "", ""], len(amounts), *pairs, 0, full_key, who)
        step = budgets.spend(self.row, amounts, self.now, is_repeated=key in self.seen)
        assert answer(reply) == self.take(step, who, key)

    def reserve(self, amounts: dict[str, int], who: str, reservation_id: str, epoch: int, on_crash: c.OnCrash) -> None:
        pairs = [part for pair in amounts.items() for part in pair]
        given = [len(amounts), *pairs, "", on_crash]
        reply = self.vm.fcall("reserve_budget", [self.key], who, reservation_id, epoch, *given)
        held, wanted = self.holds.setdefault(who, {}), Hold(epoch, amounts, on_crash)
        step = reservations.reserve(
            self.row, held, reservation_id, wanted, self.now,
            closed_epoch=self.closed.get(who, -1), is_settled=reservation_id in {*self.seen, *self.crashed},
        )  # fmt: skip
        result = self.take(step)
        if isinstance(result, c.BudgetReserved):
            held.setdefault(reservation_id, wanted)
        assert (c.BudgetReserved() if reply[:2] == [1, "OK"] else answer(reply)) == result

    def settle(self, amounts: dict[str, int], who: str, reservation_id: str) -> None:
        pairs = [part for pair in amounts.items() for part in pair]
        reply = self.vm.fcall("settle_reservation", [self.key], who, reservation_id, len(amounts), *pairs)
        held = self.holds.setdefault(who, {})
        step = reservations.settle(
            self.row, held, reservation_id, amounts, self.now, is_settled=reservation_id in self.seen,
            crashed=self.crashed.get(reservation_id),
        )  # fmt: skip
        assert answer(reply) == self.take(step, who, reservation_id)
        if not isinstance(step, Refusal):
            self.crashed.pop(reservation_id, None)

    def note(self, amounts: dict[str, int], who: str, reservation_id: str) -> None:
        pairs = [part for pair in amounts.items() for part in pair]
        given = [len(amounts), *pairs, "", "so_far"]
        reply = self.vm.fcall("settle_reservation", [self.key], who, reservation_id, *given)
        held = self.holds.setdefault(who, {})
        if reply[:2] == [1, "OK"] and reservation_id in held:
            before = self.crashed.get(reservation_id, {})
            held[reservation_id] = held[reservation_id].note(
                {name: max(0, amount - before.get(name, 0)) for name, amount in amounts.items()}
            )

    def end_stretch(self, who: str, epoch: int, wall_time_ms: int, attempts: int, continues: bool) -> None:
        given = [epoch, wall_time_ms, attempts, "1", "1" if continues else ""]
        reply = self.vm.fcall("settle_stretch", [self.key], who, *given)
        held, key = self.holds.setdefault(who, {}), f"{who} {epoch}"
        measured = {"wall_time_ms": wall_time_ms, "attempts": attempts}
        is_repeated = key in self.seen
        is_measured = bool(reservations.end_stretch(self.row, {}, epoch, measured, self.now).counted)
        step = reservations.end_stretch(
            self.row, held, epoch, measured, self.now, is_repeated=is_repeated, continues=continues
        )
        assert int(reply[2]) == len(step.dropped)
        self.take(step, who, key if is_measured else "")
        self.closed[who] = max(epoch, self.closed.get(who, -1))

    def release(self, who: str) -> None:
        reply = self.vm.fcall("release_budget", [f"{self.key}:usage"], self.id, who)
        result = self.take(budgets.release(self.row, self.ledgers.get(who, Ledger()).spent(self.row)))
        self.ledgers.pop(who, None)
        assert reply[2] == str(result.__struct_config__.tag)

    def set_limits(self, limits: list[Limit]) -> None:
        names, hard, soft = zip(*limits, strict=True)
        reply = self.vm.fcall("set_budget_limits", [self.key], self.id, 0, len(names), *names, *hard, *soft)
        result = self.take(budgets.set_limits(self.row, limits, self.now))
        assert (reply[2] == "1") == result.is_open

    def reset(self) -> None:
        reply = self.vm.fcall("reset_budget", [self.key], self.id, 0)
        self.apply(periods.reset(self.row, self.now))
        assert int(reply[2]) == (self.row.next_reset_at or 0)

    def reset_if_due(self) -> None:
        reply = self.vm.fcall("due_budgets", [f"ff:idx:{TAG}:budget_resets"], 10)
        changes = periods.reset_if_due(self.row, self.now) if self.row.next_reset_at else None
        assert reply[2] == ([self.id] if changes else [])
        self.apply(changes or Changes())

    # Both are the same.

    def compare(self) -> None:
        stored = self.vm.hash(self.key)
        self.follow_choice(stored.get("last_breach_dim"))
        for name in _NUMBERS:
            found = stored.get(name)
            assert (int(found) if found else None) == getattr(self.row, name), name
        assert stored.get("last_breach_dim") == self.row.last_breach_dim
        counts = [int(stored.get(name, 0)) for name in ("breach_count", "soft_breach_count", "reset_count")]
        assert counts == [self.row.breach_count, self.row.soft_breach_count, self.row.period]
        assert self.numbers(":usage") == +Counter(self.row.used)
        assert self.numbers(":reserved") == self.row.held
        expected = {f"{kind}:{name}": n for kind in ("hard", "soft") for name, n in getattr(self.row, kind).items()}
        assert self.numbers(":limits") == expected
        for who, ledger in self.ledgers.items():
            found = self.vm.fcall("describe_budget", [self.key], who)[6]
            assert dict(zip(found[::2], map(int, found[1::2]), strict=True)) == ledger.spent(self.row)
        entries = self.vm.client.xrange(f"ff:part:{TAG}:events")
        assert [line for _, entry in entries for line in entry[b"lines"].decode().split("\n")] == self.told

    def numbers(self, part: str) -> dict[str, int]:
        return +Counter({name: int(value) for name, value in self.vm.hash(self.key + part).items()})

    def follow_choice(self, name: str | None) -> None:
        """Which of several dimensions over their limits is named is not specified: the row takes the store's."""
        if name == self.row.last_breach_dim or not name or not self.row.is_over(name):
            return
        assert self.row.last_breach_dim
        assert self.row.is_over(self.row.last_breach_dim)
        self.row = replace(self.row, last_breach_dim=name)
        used, limit = self.row.used[name], self.row.hard[name]
        self.told[-1] = f"budget_hard_breached {TAG}:{self.id}  0 {name} {used} of {limit}"
