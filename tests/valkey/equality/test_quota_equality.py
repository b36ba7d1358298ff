"""Quotas in Lua and in `core/rules`: windows, slots, tickets, and which limits an execution has."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core import contracts as c
from flowfabric.core.codec import to_msgpack
from flowfabric.core.rules.limits import admission, quotas
from flowfabric.core.rules.limits.admission import Limits
from flowfabric.core.rules.limits.quotas import Counts, Quota, Slot
from flowfabric.core.rules.outcome import Refusal
from tests.servers import TestServer
from tests.valkey.equality.vm import MANY, NOW, SOME, RuleVm, rule_vm

_GLUE = """
function glue.limits_of(x, attached)
  redis.call('DEL', lib.limit_scopes.key('{fp:1}'))
  x.id, x.tag, x.lane_id, x.core = 'me', '{fp:1}', 'lane', 'ff:exec:{fp:1}:me:core'
  local names = {'lane:lane', 'namespace:default', 'execution:me', 'flow:f'}
  for i, text in ipairs(attached) do redis.call('HSET', lib.limit_scopes.key('{fp:1}'), names[i], text) end
  local found = lib.limit_scopes.of(x)
  return found and table.concat(found.budgets, ',') .. '|' .. table.concat(found.quotas, ',') or false
end
function glue.closed(x, limits, waiting)
  x.tag = '{fp:1}'
  redis.call('DEL', lib.limit_queue.looks_key(x.tag))
  if waiting then lib.limit_queue.look_at(x.tag, waiting, 5) end
  return lib.limit_queue.closed(x, limits) or false
end
function glue.changed(...) return {lib.limit_scopes.changed(...)} end
"""


@pytest.fixture(scope="module")
def vm(wire_server: TestServer) -> Iterator[RuleVm]:
    with rule_vm(wire_server, _GLUE) as opened:
        yield opened


class Twins:
    """One quota policy twice: in the store, and as rows that `core/rules` decides about."""

    def __init__(self, vm: RuleVm, row: Quota) -> None:
        self.vm, self.row, self.now = vm, row, NOW
        vm.set_clock(self.now)
        self.id = str(uuid.uuid4())
        self.key = f"ff:quota:{{q:7}}:{self.id}"
        made = vm.fcall("create_quota_policy", [self.key], self.id, row.window_seconds, row.rate, row.cap, 0, 0,
                        row.key_by or "")  # fmt: skip
        assert made[0] == 1, made
        self.slots: dict[str, Slot] = {}
        self.starts: dict[str, dict[str, int]] = {}
        self.running: dict[str, set[str]] = {}

    def counts(self, key: str) -> Counts:
        return Counts(key, tuple(self.starts.get(key, {}).values()), len(self.running.get(key, ())))

    def pass_time(self, ms: int) -> None:
        self.now += ms
        self.vm.set_clock(self.now)

    def admit(self, who: str, ticket: int, is_resume: bool, lane: str) -> None:
        item = (who, ticket, int(is_resume), "default", lane, "kind", "")
        reply = self.vm.fcall("admit_batch", [self.key], to_msgpack([item]))[2][0]
        counts, holder = self.counts(self.row.key_of({"lane": lane})), quotas.holder(who, ticket)
        answer = quotas.admit(self.row, counts, self.slots.get(holder), ticket, self.now, is_resume=is_resume)
        if isinstance(answer, Refusal):
            assert reply[1] == "RELEASED"
            return
        assert reply[1] == str(answer.result.__struct_config__.tag).upper()
        assert reply[3] == str(getattr(answer.result, "retry_after_ms", ""))
        if answer.is_start:
            self.starts.setdefault(counts.key, {})[holder] = self.now
        if answer.slot is not None:
            self.slots[holder] = answer.slot
            if answer.expires_in_ms is None:
                self.running.setdefault(counts.key, set()).add(holder)

    def release(self, who: str, ticket: int, is_unused: bool, listed: str | None) -> None:
        item = (who, ticket, int(is_unused)) + (() if listed is None else (listed,))
        reply = self.vm.fcall("release_batch", [self.key], to_msgpack([item]))
        ticketed = self.slots.get(quotas.holder(who, ticket)) if ticket else None
        step = quotas.release(ticketed, self.slots.get(who), who, ticket, listed)
        if step.remember_ms is not None:
            self.slots[quotas.holder(who, ticket)] = Slot(ticketed.key if ticketed else "", is_released=True)
        if step.forget is not None:
            del self.slots[step.forget]
        if step.key is None:
            assert reply[2] == "0"
            return
        had_slot = step.holder in self.running.get(step.key, ())
        self.running.get(step.key, set()).discard(step.holder)
        if is_unused:
            self.starts.get(step.key, {}).pop(step.holder, None)
        assert reply[2] == str(int(had_slot or step.is_certain))

    def compare(self) -> None:
        for lane in ("a", "b"):
            key = self.row.key_of({"lane": lane})
            reply = self.vm.fcall("quota_room", [self.key], key)
            room = quotas.room(self.row, self.counts(key), self.now)
            assert (int(reply[2]), reply[3]) == (room.free, "" if room.wait_ms is None else str(room.wait_ms))


_WHO = st.sampled_from(["x", "y", "z"])
_TICKETS = st.sampled_from([0, 0, 1, 2, NOW, NOW + 60_000])
_LANES = st.sampled_from(["a", "b"])
_DEEDS = st.one_of(
    st.tuples(st.just("admit"), _WHO, _TICKETS, st.booleans(), _LANES),
    st.tuples(st.just("admit"), _WHO, _TICKETS, st.just(False), _LANES),
    st.tuples(st.just("release"), _WHO, _TICKETS, st.booleans(), st.sampled_from([None, None, "", ":lane:a"])),
    st.tuples(st.just("pass_time"), st.sampled_from([1, 30_000, 60_000, 61_000, 600_000, 600_001])),
)
_QUOTAS = st.builds(
    Quota, rate=st.integers(0, 3), cap=st.integers(0, 3), window_seconds=st.sampled_from([60, 90]),
    key_by=st.sampled_from([None, c.QuotaKey.LANE]),
)  # fmt: skip


@SOME
@given(row=_QUOTAS, deeds=st.lists(_DEEDS, max_size=30))
def test_every_step_of_a_quota_is_the_same(vm: RuleVm, row: Quota, deeds: list[tuple[Any, ...]]) -> None:
    twins = Twins(vm, row)
    for name, *args in deeds:
        getattr(twins, name)(*args)
        twins.compare()


@pytest.mark.parametrize("late_by", [0, 1])
def test_a_ticket_is_late_after_the_same_time(vm: RuleVm, late_by: int) -> None:
    """At exactly ten minutes it still counts."""
    twins = Twins(vm, Quota(cap=1))
    twins.pass_time(quotas.LATE_MS + late_by)
    twins.admit("x", NOW, False, "a")
    assert bool(twins.slots) is (late_by == 0)


@MANY
@given(last=st.integers(0, NOW + 10), now=st.integers(NOW - 10, NOW + 10))
def test_a_ticket_is_a_time_and_larger_than_the_last(vm: RuleVm, last: int, now: int) -> None:
    assert vm.call("ticket.next", {"admission_seq": str(last)}, now) == quotas.next_ticket(last, now)


def test_a_wait_is_lengthened_by_the_same_chance(vm: RuleVm) -> None:
    row = Quota(rate=1, window_seconds=60)
    twins = Twins(vm, row)
    for at, who in enumerate(["x", "y", "z", "w"]):
        keys = ["", "", twins.key, "", ""]
        reply = vm.fcall("check_admission_and_record", keys, NOW, 60, 1, 0, who, 5_000)
        waits = 60_000 + quotas.jitter_ms(who, NOW, 5_000)
        assert reply == (["RATE_EXCEEDED", str(waits)] if at else ["ADMITTED"])


_IDS = st.lists(st.sampled_from(["i1", "i2", "i3"]), max_size=3)
_LIMITS = st.builds(lambda budgets, quotas: Limits(tuple(budgets), tuple(quotas)), _IDS, _IDS)


def _text(limits: Limits) -> str:
    return f"{','.join(limits.budgets)}|{','.join(limits.quotas)}"


@MANY
@given(budgets=_IDS, quota=st.one_of(st.none(), st.just("i1")), attached=st.lists(_LIMITS, max_size=4))
def test_an_execution_has_the_same_limits(
    vm: RuleVm, budgets: list[str], quota: str | None, attached: list[Limits]
) -> None:
    record: dict[str, str] = {"flow_id": "f"}
    if budgets:
        record["budget_ids"] = ",".join(budgets)
    if quota:
        record["quota_policy_id"] = quota
    found = vm.call("glue.limits_of", record, [_text(each) for each in attached])
    expected = admission.limits_of(Limits(tuple(budgets), (quota,) if quota else ()), attached)
    assert found == (_text(expected) if expected else False)


@MANY
@given(ids=_IDS, limit_id=st.sampled_from(["i1", "i9"]), is_added=st.booleans())
def test_a_limit_is_attached_once_and_taken_off(vm: RuleVm, ids: list[str], limit_id: str, is_added: bool) -> None:
    before = f"{','.join(ids)}|"
    expected = admission.attach(ids, limit_id) if is_added else admission.detach(ids, limit_id)
    found = vm.call("glue.changed", before, "budget", limit_id, is_added)
    assert found == ([f"{','.join(expected)}|", len(expected)] if expected else {})


_PLACES = st.fixed_dictionaries({
    c.QuotaKey.NAMESPACE: st.sampled_from(["default", "n"]), c.QuotaKey.LANE: st.sampled_from(["l", "m"]),
    c.QuotaKey.EXECUTION_KIND: st.sampled_from(["k", ""]), c.QuotaKey.CONCURRENCY_KEY: st.sampled_from(["", "c"]),
})  # fmt: skip


@MANY
@given(limits=_LIMITS, others=_LIMITS, places=_PLACES, elsewhere=_PLACES, asks=st.booleans(), data=st.data())
def test_an_execution_waits_behind_others_under_the_same_names(
    vm: RuleVm, limits: Limits, others: Limits, places: dict[str, str], elsewhere: dict[str, str], asks: bool,
    data: st.DataObject,
) -> None:  # fmt: skip
    names = admission.waiting_names(limits, places, asks_budgets=asks)
    taken = data.draw(st.sampled_from([None, *names, *admission.waiting_names(others, elsewhere)]))
    fields = {"namespace": "namespace", "lane": "lane_id"}
    record = {fields.get(kind, kind): value for kind, value in places.items() if value not in ("", "default")}
    asked = {"budgets": limits.budgets, "quotas": limits.quotas, "is_answered": not asks}
    assert vm.call("glue.closed", record, asked, taken or False) == (taken if taken in names else False)
