"""BudgetPort on Valkey: one call on the budget's slot; waiting executions are released when it has room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import Fields, Value, at_once
from flowfabric.backends.valkey.library.records import number, optional_number, reading
from flowfabric.backends.valkey.ports.executions import fence_args
from flowfabric.backends.valkey.ports.limits.admissions import ValkeyAdmissions
from flowfabric.backends.valkey.ports.maintenance import tags_with
from flowfabric.backends.valkey.wire.client import Client
from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId, ExecutionId
from flowfabric.core.partition import Partition, PartitionFamily, PartitionKey
from flowfabric.errors import BadReply, InvalidInput


class ValkeyBudgets(ValkeyAdmissions):
    """Budgets: limits, usage, reservations."""

    _client: Client

    async def create_budget(self, args: c.CreateBudgetArgs) -> c.CreateBudgetResult:
        fields = await self._call_budget(
            "create_budget",
            args.budget_id,
            budget_id=args.budget_id,
            scope_type=args.scope_type,
            scope_id=args.scope_id,
            enforcement_mode=args.enforcement_mode,
            on_hard_limit=args.on_hard_limit,
            on_soft_limit=args.on_soft_limit,
            reset_interval_ms=args.reset_interval_ms,
            now_ms=0,
            dimension_count=len(args.dimensions),
            dimensions=[*_limits(args), args.namespace or "", args.name or ""],
        )
        await self.attach_created(c.LimitKind.BUDGET, args.budget_id, args.scope_type, args.scope_id)
        if fields.status == "ALREADY_SATISFIED":
            return c.BudgetAlreadySatisfied(budget_id=args.budget_id)
        return c.BudgetCreated(budget_id=args.budget_id)

    async def get_budget_status(self, budget_id: BudgetId) -> c.BudgetStatus:
        fields = await self._call_budget("describe_budget", budget_id)
        with reading("budget", budget_id):
            return _status(budget_id, fields)

    async def get_budget_ledger(self, budget_id: BudgetId, execution_id: ExecutionId) -> dict[str, int]:
        fields = await self._call_budget("describe_budget", budget_id, execution_id=ExecutionId(execution_id))
        with reading("ledger of budget", budget_id):
            return _numbers(fields.mapping(4))

    async def list_budgets(self, *, after: BudgetId | None = None, limit: int = 100) -> list[BudgetId]:
        tags = keys.budget_tags_of(self.partitions)
        found = await at_once(self._list_limits(f"ff:idx:{tag}:budget_policies", after, limit) for tag in tags)
        with reading("list of budgets"):
            return [BudgetId(each) for each in sorted(each for ids in found for each in ids)[:limit]]

    async def report_usage_and_check(self, args: c.ReportUsageArgs) -> c.ReportUsageResult:
        return await self._report(args, args.execution_id, args.namespace or "")

    async def report_usage_admin(self, args: c.ReportUsageAdminArgs) -> c.ReportUsageResult:
        return await self._report(args, "", "")

    async def record_spend(self, args: c.RecordSpendArgs) -> c.ReportUsageResult:
        dedup = self._dedup_key(args.budget_id, args.dedup_key)
        spend = [*_pairs(args.dimensions, args.deltas), "0", dedup, args.execution_id or "", args.namespace or ""]
        fields = await self._call_budget("record_spend", args.budget_id, pair_count=len(args.dimensions), spend=spend)
        return _counted(fields)

    async def release_budget(self, args: c.ReleaseBudgetArgs) -> c.ReleaseBudgetResult:
        key = f"{keys.budget(args.budget_id, self.partitions)}:usage"
        given = {"budget_id": args.budget_id, "execution_id": args.execution_id}
        fields = await self._caller.call("release_budget", {"usage": key}, given, subject=args.budget_id)
        if fields.text(0) == "noop":
            return c.NothingToRelease()
        await self.wake_for_budget(args.budget_id)
        return c.BudgetReleased()

    async def reset_budget(self, args: c.ResetBudgetArgs) -> c.ResetBudgetResult:
        fields = await self._call_budget("reset_budget", args.budget_id, budget_id=args.budget_id, now_ms=0)
        await self.wake_for_budget(args.budget_id)
        return c.BudgetReset(next_reset_at=fields.number(0) or None)

    async def set_budget_limits(self, args: c.SetBudgetLimitsArgs) -> c.BudgetLimitsSet:
        fields = await self._call_budget(
            "set_budget_limits",
            args.budget_id,
            budget_id=args.budget_id,
            now_ms=0,
            dimension_count=len(args.dimensions),
            dimensions=_limits(args),
        )
        is_open = fields.text(0) == "1"
        if is_open:
            await self.wake_for_budget(args.budget_id)
        return c.BudgetLimitsSet(is_open=is_open)

    async def reserve_budget(self, args: c.ReserveBudgetArgs) -> c.ReserveBudgetResult:
        # Recorded first, under the fence: whatever happens later, the end of the lease returns it.
        noted = await self._caller.call_execution(
            "note_reservation", args.execution_id, **fence_args(args.fence), budget_id=args.budget_id
        )
        fields = await self._call_budget(
            "reserve_budget",
            args.budget_id,
            execution_id=args.execution_id,
            reservation_id=args.reservation_id,
            lease_epoch=args.fence.lease_epoch,
            pair_count=len(args.dimensions),
            amounts=[*_pairs(args.dimensions, args.amounts), args.namespace or noted.text(1), args.on_crash],
        )
        return _reserved(fields)

    async def settle_reservation(self, args: c.SettleReservationArgs) -> c.ReportUsageResult:
        fields = await self._call_budget(
            "settle_reservation",
            args.budget_id,
            execution_id=args.execution_id,
            reservation_id=args.reservation_id,
            pair_count=len(args.dimensions),
            amounts=[*_pairs(args.dimensions, args.amounts), args.namespace or "", "" if args.ends else "so_far"],
        )
        return _counted(fields)

    async def budget_partitions_in_use(self) -> list[Partition]:
        tags = await tags_with(self._client, keys.budget_tags_of(self.partitions), "budget_policies")
        return [PartitionKey(tag).parse() for tag in tags]

    async def reset_due_budgets(self, partition: Partition, *, limit: int = 100) -> c.DueBudgetsReset:
        key = f"ff:idx:{self._budget_tag(partition)}:budget_resets"
        fields = await self._caller.call("due_budgets", {"budget_resets": key}, {"limit": limit})
        reset = tuple(BudgetId(each) for each in fields.texts(0))
        for budget_id in reset:
            await self.wake_for_budget(budget_id)
        next_at = fields.number(1) if fields.text(1) else None
        return c.DueBudgetsReset(budget_ids=reset, next_at_ms=next_at, now_ms=fields.number(2))

    async def read_budget_notices(
        self, partition: Partition, *, done: Sequence[c.BudgetNotice] = (), limit: int = 100
    ) -> list[c.BudgetNotice]:
        key = f"ff:idx:{self._budget_tag(partition)}:budget_notices"
        names = [f"{each.kind} {each.budget_id} {each.dimension}" for each in done]
        given: dict[str, Value] = {"limit": limit, "done": names}
        fields = await self._caller.call("budget_notices", {"budget_notices": key}, given)
        flat = fields.texts(0)
        return [_notice(text, at) for text, at in zip(flat[::2], flat[1::2], strict=True)]

    async def _report(self, args: c.ReportUsageAdminArgs, execution_id: str, namespace: str) -> c.ReportUsageResult:
        dedup = self._dedup_key(args.budget_id, args.dedup_key)
        report = [*args.dimensions, *map(str, args.deltas), "0", dedup, execution_id, namespace]
        fields = await self._call_budget(
            "report_usage_and_check", args.budget_id, dimension_count=len(args.dimensions), report=report
        )
        return _counted(fields)

    async def _call_budget(self, operation: str, budget_id: BudgetId, /, **args: Value) -> Fields:
        key = keys.budget(BudgetId(budget_id), self.partitions)
        return await self._caller.call(operation, {"budget": key}, args, subject=budget_id)

    def _dedup_key(self, budget_id: BudgetId, dedup_key: str | None) -> str:
        return keys.usage_dedup(budget_id, dedup_key, self.partitions) if dedup_key else ""

    def _budget_tag(self, partition: Partition) -> str:
        count = self.partitions.num_budget_partitions
        if partition.family is not PartitionFamily.BUDGET or partition.index >= count:
            raise InvalidInput("partition", partition.tag, f"must be one of the {count} of budgets, like {{b:7}}")
        return partition.tag


def _limits(args: c.CreateBudgetArgs | c.SetBudgetLimitsArgs) -> list[str]:
    return [*args.dimensions, *map(str, args.hard_limits), *map(str, args.soft_limits)]


def _pairs(dimensions: Sequence[str], amounts: Sequence[int]) -> list[str]:
    return [part for name, amount in zip(dimensions, amounts, strict=True) for part in (name, str(amount))]


def _counted(fields: Fields) -> c.ReportUsageResult:
    match fields.status:
        case "OK":
            return c.UsageCounted()
        case "SOFT_BREACH":
            return c.SoftBreach(
                dimension=fields.text(0),
                current_usage=fields.number(1),
                soft_limit=fields.number(2),
                is_crossing=fields.text(3) == "1",
            )
        case "HARD_BREACH":
            return _hard_breach(fields)
        case "ALREADY_APPLIED":
            return c.UsageAlreadyApplied()
    raise BadReply(f"{fields.operation}: unknown status {fields.status!r}")


def _hard_breach(fields: Fields) -> c.HardBreach:
    return c.HardBreach(
        dimension=fields.text(0),
        current_usage=fields.number(1),
        hard_limit=fields.number(2),
        on_hard_limit=fields.text(3),
    )


def _reserved(fields: Fields) -> c.ReserveBudgetResult:
    match fields.status:
        case "OK" | "DUPLICATE":
            return c.BudgetReserved()
        case "HELD":
            return c.BudgetHeldByOthers(
                dimension=fields.text(0), current_usage=fields.number(1), hard_limit=fields.number(2)
            )
        case "HARD_BREACH":
            return _hard_breach(fields)
        case "ALREADY_APPLIED":
            return c.UsageAlreadyApplied()
    raise BadReply(f"{fields.operation}: unknown status {fields.status!r}")


def _numbers(found: Mapping[str, str]) -> dict[str, int]:
    return {name: number(found, name) for name in sorted(found)}


def _of_kind(limits: Mapping[str, str], kind: str) -> dict[str, int]:
    found = {name.removeprefix(kind): number(limits, name) for name in sorted(limits) if name.startswith(kind)}
    return {name: limit for name, limit in found.items() if limit}


def _status(budget_id: BudgetId, fields: Fields) -> c.BudgetStatus:
    found, limits = fields.mapping(0), fields.mapping(1)

    def time(name: str) -> int | None:
        return optional_number(found, name)

    return c.BudgetStatus(
        budget_id=budget_id,
        scope_type=found.get("scope_type", ""),
        scope_id=found.get("scope_id", ""),
        enforcement_mode=found.get("enforcement_mode", ""),
        usage={name: used for name, used in _numbers(fields.mapping(2)).items() if name != "breached_at"},
        hard_limits=_of_kind(limits, "hard:"),
        soft_limits=_of_kind(limits, "soft:"),
        breach_count=optional_number(found, "breach_count") or 0,
        soft_breach_count=optional_number(found, "soft_breach_count") or 0,
        last_breach_at=time("last_breach_at"),
        last_breach_dim=found.get("last_breach_dim") or None,
        next_reset_at=time("next_reset_at"),
        created_at=time("created_at"),
        reserved=_numbers(fields.mapping(3)),
        breached_at=time("breached_at"),
        on_hard_limit=found.get("on_hard_limit", ""),
        on_soft_limit=found.get("on_soft_limit", ""),
        reset_interval_ms=optional_number(found, "reset_interval_ms") or 0,
        reset_count=optional_number(found, "reset_count") or 0,
        last_reset_at=time("last_reset_at"),
        namespace=owner_of(found),
        name=found.get("name"),
    )


def owner_of(definition: Mapping[str, str]) -> str | None:
    """The owner namespace of a limit; None: the store's own."""
    made_for = definition.get("scope_id") if definition.get("scope_type") == "namespace" else None
    return definition.get("namespace") or made_for


def _notice(text: str, at_ms: str) -> c.BudgetNotice:
    with reading("budget notice", text):
        kind, budget_id, dimension = text.split(" ", 2)
        is_soft = kind == "soft"
        return c.BudgetNotice(
            kind="soft" if is_soft else "hard", budget_id=BudgetId(budget_id), dimension=dimension, at_ms=int(at_ms)
        )
