"""AdmissionPort on Valkey: the steps between an execution's partition and the slots of its limits.

Each step is one atomic call on one slot, and may be repeated. Unfinished work is recorded in the execution's partition,
as an offer or a debt, until it is drained, so no step depends on the process that made the previous one.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import shuffle
from typing import NamedTuple

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import Fields, FunctionCaller, Value, at_once
from flowfabric.backends.valkey.ports.maintenance import tag_of
from flowfabric.backends.valkey.rows.limit_records import Debt
from flowfabric.core import contracts as c
from flowfabric.core.codec import to_msgpack
from flowfabric.core.ids import BudgetId, ExecutionId, FlowId, QuotaPolicyId
from flowfabric.core.partition import PartitionConfig, flow_partition
from flowfabric.errors import FlowFabricError, NotFound

# Check a limit again after this long in any case: the safety net for lost steps.
SAFETY_MS = 5_000
BUDGET_SAFETY_MS = 30_000
# After a release: time enough for claims, so that the next check sees their slots.
AGAIN_MS = 50
_AT_ONCE = 100


class Room(NamedTuple):
    """How many more may start on a limit, when to check again, and which partitions wait for it."""

    free: int
    look_in_ms: int
    waiting_key: str
    waiting: dict[str, str]


class ValkeyAdmissions:
    """Admission of executions by their limits."""

    _caller: FunctionCaller
    partitions: PartitionConfig

    async def attach_limit(self, args: c.AttachLimitArgs) -> int:
        return await self._attach(args, is_attached=True)

    async def detach_limit(self, args: c.AttachLimitArgs) -> int:
        return await self._attach(args, is_attached=False)

    async def attach_created(
        self, kind: c.LimitKind, limit_id: str, scope_type: c.LimitScope | None, scope_id: str | None
    ) -> None:
        """Attach a limit to its scope, if it has one."""
        if scope_type is not None and scope_id is not None:
            args = c.AttachLimitArgs(scope_type=scope_type, scope_id=scope_id, limit_kind=kind, limit_id=limit_id)
            await self.attach_limit(args)

    async def drain_admissions(self, args: c.DrainAdmissionsArgs) -> c.AdmissionsDrained:
        tag = tag_of(args.partition, self.partitions)
        due = await self._caller.call_partition("due_admissions", tag, limit=args.limit)
        paid, woken = await self.settle_due(tag, due)
        did_something = due.texts(1) or due.texts(2)
        after = await self._caller.call_partition("due_admissions", tag, limit=1) if did_something else due
        return c.AdmissionsDrained(
            lapsed=due.number(0),
            paid=paid,
            woken=woken,
            next_at_ms=after.number(3) if after.text(3) else None,
            now_ms=after.number(4),
        )

    async def settle_due(self, tag: str, due: Fields) -> tuple[int, int]:
        """Settle the partition's debts and check the limits that are due; count settled debts and releases."""
        paid, woken = await self._pay(tag, due.texts(1))
        for name in due.texts(2):
            woken += await self._look(tag, name)
        return paid, woken

    async def wake_for_budget(self, budget_id: BudgetId) -> int:
        """Release the next executions that wait for a budget, if it is open."""
        return await self._wake(f"b:{budget_id}", await self.room_of(f"b:{budget_id}"))

    async def wake_for_quota(self, quota_policy_id: QuotaPolicyId, suffix: str) -> int:
        name = f"q:{quota_policy_id}{suffix}"
        return await self._wake(name, await self.room_of(name))

    async def room_of(self, name: str, *, waiting_tag: str = "") -> Room:
        """Read a limit's room; the waiting partition is registered first."""
        if name.startswith("b:"):
            return await self._budget_room(BudgetId(name[2:]), waiting_tag)
        return await self._quota_room(name[2:], waiting_tag)

    async def wait_for(self, tag: str, name: str) -> int:
        """After executions were blocked by a limit: register with it, and release as many as it has room for now."""
        return await self._wake_in(tag, name, await self.room_of(name, waiting_tag=tag))

    async def _budget_room(self, budget_id: BudgetId, waiting_tag: str) -> Room:
        key = keys.budget(budget_id, self.partitions)
        fields = await self._caller.call("check_budget", {"budget": key}, {"waiting_tag": waiting_tag or None})
        is_open = fields.text(0) == "1"
        return Room(_AT_ONCE if is_open else 0, BUDGET_SAFETY_MS, f"{key}:waiting", fields.mapping(5))

    async def _quota_room(self, name: str, waiting_tag: str) -> Room:
        quota_policy_id, suffix = QuotaPolicyId(name[:36]), name[36:]
        key = keys.quota(quota_policy_id, self.partitions)
        given: dict[str, Value] = {"suffix": suffix, "waiting_tag": waiting_tag or None}
        fields = await self._caller.call("quota_room", {"quota": key}, given, subject=quota_policy_id)
        wait = fields.number(1) if fields.text(1) else SAFETY_MS
        return Room(fields.number(0), wait, f"{key}:waiting{suffix}", fields.mapping(2))

    async def _look(self, tag: str, name: str) -> int:
        """Check a limit that this partition waits for."""
        try:
            room = await self.room_of(name)
        except FlowFabricError:  # absent or unreadable: it releases nothing (G11)
            room = Room(0, BUDGET_SAFETY_MS, "", {})
        return await self._wake_in(tag, name, room)

    async def _wake(self, name: str, room: Room) -> int:
        """Release as many as there is room for, over the waiting partitions in rotation."""
        tags, woken = list(room.waiting), 0
        shuffle(tags)
        for tag in tags:
            if woken >= room.free:
                break
            woken += await self._wake_in(tag, name, room._replace(free=room.free - woken))
        return woken

    async def _wake_in(self, tag: str, name: str, room: Room) -> int:
        count = min(room.free, _AT_ONCE)
        fields = await self._caller.call_partition(
            "wake_waiting", tag, limit_name=name, count=count, look_in_ms=AGAIN_MS if count else room.look_in_ms
        )
        seen = room.waiting.get(tag)
        if fields.number(1) == 0 and seen is not None:
            given = {"tag": tag, "seen": seen}
            await self._caller.call("forget_waiting", {"waiting": room.waiting_key}, given, subject=tag)
        return fields.number(0)

    async def _pay(self, tag: str, entries: Sequence[str]) -> tuple[int, int]:
        """Settle debts with their limits; count settled debts and releases. Failed ones stay on the list."""
        debts = [Debt.read(entry) for entry in entries]
        unpaid: set[str] = set()
        woken = 0
        for name in sorted({name for debt in debts for name in debt.limits}):
            owing = [debt for debt in debts if name in debt.limits]
            try:
                woken += await self._pay_one(name, owing)
            except NotFound:
                continue  # a deleted limit is owed nothing
            except FlowFabricError:
                unpaid |= {debt.entry for debt in owing}
        done = [debt.entry for debt in debts if debt.entry not in unpaid]
        if done:
            await self._caller.call_partition("ack_handovers", tag, entries=done)
        if unpaid:  # postponed, so that they block no others
            await self._caller.call_partition("ack_handovers", tag, retry_in_ms=SAFETY_MS, entries=sorted(unpaid))
        return len(done), woken

    async def _pay_one(self, name: str, debts: Sequence[Debt]) -> int:
        if name.startswith("b:"):
            budget_id = BudgetId(name[2:])
            return await self.settle_stretches(budget_id, [debt.stretch(budget_id) for debt in debts])
        return await self.release_slots(QuotaPolicyId(name[2:]), [debt.release_item for debt in debts])

    async def release_slots(self, quota_policy_id: QuotaPolicyId, items: Sequence[tuple[str | int, ...]]) -> int:
        """Return slots of a quota and release the next executions; how many."""
        key, name = keys.quota(quota_policy_id, self.partitions), f"q:{quota_policy_id}"
        given: dict[str, Value] = {"items": to_msgpack(items)}
        fields = await self._caller.call("release_batch", {"quota": key}, given, subject=name)
        woken = 0
        for room in fields.entries(1):
            suffix = room.text(0)
            wait = room.number(2) if room.text(2) else SAFETY_MS
            found = Room(room.number(1), wait, f"{key}:waiting{suffix}", room.mapping(3))
            woken += await self._wake(name + suffix, found)
        return woken

    async def settle_stretches(self, budget_id: BudgetId, stretches: Sequence[dict[str, Value]]) -> int:
        """Report ended leases to a budget and release the next executions; how many."""
        key = keys.budget(budget_id, self.partitions)
        waiting: dict[str, str] = {}
        for stretch in stretches:
            fields = await self._caller.call("settle_stretch", {"budget": key}, stretch, subject=budget_id)
            waiting = fields.mapping(1)
        if not waiting:
            return 0
        return await self._wake(f"b:{budget_id}", Room(_AT_ONCE, BUDGET_SAFETY_MS, f"{key}:waiting", waiting))

    async def _attach(self, args: c.AttachLimitArgs, *, is_attached: bool) -> int:
        tags = self._tags_of_scope(args)
        given: dict[str, Value] = {
            "scope": f"{args.scope_type}:{args.scope_id}",
            "kind": args.limit_kind,
            "limit_id": args.limit_id,
            "is_attached": int(is_attached),
        }
        await at_once(self._caller.call("attach_limit", {"attachments": keys.attachments(tag)}, given) for tag in tags)
        return len(tags)

    def _tags_of_scope(self, args: c.AttachLimitArgs) -> list[str]:
        match args.scope_type:
            case c.LimitScope.EXECUTION:
                return [ExecutionId(args.scope_id).tag]
            case c.LimitScope.FLOW:
                return [flow_partition(FlowId(args.scope_id), self.partitions).tag]
        return keys.tags_of(self.partitions)

    async def _list_limits(self, key: str, after: str | None, limit: int) -> list[str]:
        fields = await self._caller.call("list_limits", {"members": key}, {"after": after or "", "limit": limit})
        return fields.texts(0)
