"""Budgets and quotas: create, attach, change and read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypedDict, Unpack

from flowfabric.backends.ports import EngineBackend
from flowfabric.client.budget_names import named_budget
from flowfabric.client.tasks.options import Duration, ms
from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId, ExecutionId, Namespace, QuotaPolicyId
from flowfabric.errors import InvalidInput

BudgetIds: TypeAlias = list[BudgetId]  # defined here, because inside the classes `list` is a method
QuotaPolicyIds: TypeAlias = list[QuotaPolicyId]


class Scope(TypedDict, total=False):
    """Whose executions a limit applies to; exactly one key."""

    namespace: str
    lane: str
    flow: str
    execution: str


def _scope(scope: Scope) -> tuple[c.LimitScope, str] | None:
    """The given scope, or None."""
    names = ", ".join(c.LimitScope)
    unknown = [name for name in scope if name not in set(c.LimitScope)]
    if unknown:
        raise InvalidInput(unknown[0], unknown[0], f"unknown scope {unknown[0]!r}; valid scopes: {names}")
    given = [(c.LimitScope(name), str(value)) for name, value in scope.items()]
    if len(given) > 1:
        raise InvalidInput("scope", scope, f"must be one of {names}; attach the limit to the others")
    return given[0] if given else None


async def _attach(backend: EngineBackend, kind: c.LimitKind, limit_id: str, scope: Scope, *, is_attached: bool) -> None:
    found = _scope(scope)
    if found is None:
        raise InvalidInput("scope", None, f"must be one of {', '.join(c.LimitScope)}, like lane='agents'")
    args = c.AttachLimitArgs(scope_type=found[0], scope_id=found[1], limit_kind=kind, limit_id=limit_id)
    await (backend.attach_limit(args) if is_attached else backend.detach_limit(args))


def _amounts(amounts: Mapping[str, int]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    return tuple(amounts), tuple(amounts.values())


class Budgets:
    """Spending limits by dimension, and their usage: `fabric.budgets`."""

    def __init__(self, backend: EngineBackend, namespace: str | None = None) -> None:
        self._backend = backend
        self._namespace = namespace

    async def create(
        self,
        limits: Mapping[str, int],
        *,
        soft: Mapping[str, int] | None = None,
        on_hard_limit: c.OnHardLimit | str = c.OnHardLimit.REJECT,
        reset_every: Duration | None = None,
        name: str | None = None,
        budget_id: str | None = None,
        owner: str | None = None,
        **scope: Unpack[Scope],
    ) -> BudgetId:
        """Create a budget for a namespace, lane, flow or execution; without a scope, for executions that name it.

        A total may reach a hard limit but not exceed it; exceeding a soft limit is reported. With a `name`, or with
        your own `budget_id`, the call can be repeated: an existing budget is left unchanged. Other methods take the
        name in place of the id. A budget for a namespace belongs to that namespace. Any other belongs to its `owner`,
        the only namespace whose executions may use it, or to the store.
        """
        soft, found = soft or {}, _scope(scope)
        names = tuple(dict.fromkeys((*limits, *soft)))
        of = found[1] if found and found[0] is c.LimitScope.NAMESPACE else owner
        own_id = BudgetId.new() if name is None else BudgetId.named(name, of)
        made = await self._backend.create_budget(
            c.CreateBudgetArgs(
                budget_id=own_id if budget_id is None else BudgetId(budget_id),
                name=name,
                scope_type=found[0] if found else None,
                scope_id=found[1] if found else None,
                dimensions=names,
                hard_limits=tuple(limits.get(name, 0) for name in names),
                soft_limits=tuple(soft.get(name, 0) for name in names),
                on_hard_limit=on_hard_limit,  # type: ignore[arg-type]  # checked there
                reset_interval_ms=0 if reset_every is None else ms("reset_every", reset_every, low=1),
                namespace=None if owner is None else Namespace(owner),
            )
        )
        return made.budget_id

    async def find(self, id_or_name: str) -> BudgetId:
        """The id of a budget by its name; an id is returned as it is.

        The store's own budget comes first, then that of this namespace, then any other with the name.
        """
        if BudgetId.fits(id_or_name):
            return BudgetId(id_or_name)
        return await named_budget(self._backend, id_or_name, self._namespace)

    async def status(self, budget_id: str) -> c.BudgetStatus:
        """Its limits, usage and reservations, and whether it is breached."""
        return await self._backend.get_budget_status(await self.find(budget_id))

    async def usage(self, budget_id: str, execution_id: str) -> dict[str, int]:
        """The amounts that an execution has spent since the last reset, by dimension."""
        return await self._backend.get_budget_ledger(await self.find(budget_id), ExecutionId(execution_id))

    async def set_limits(
        self, budget_id: str, limits: Mapping[str, int] | None = None, *, soft: Mapping[str, int] | None = None
    ) -> bool:
        """Change limits of a budget in use; returns whether executions may start on it. 0 removes a limit.

        Limits that are not named stay. Raising a limit ends the breach of its dimension.
        """
        now, limits, soft = await self.status(budget_id), limits or {}, soft or {}
        names = tuple(dict.fromkeys((*limits, *soft)))
        args = c.SetBudgetLimitsArgs(
            budget_id=now.budget_id,
            dimensions=names,
            hard_limits=tuple(limits.get(name, now.hard_limits.get(name, 0)) for name in names),
            soft_limits=tuple(soft.get(name, now.soft_limits.get(name, 0)) for name in names),
        )
        return (await self._backend.set_budget_limits(args)).is_open

    async def reset(self, budget_id: str) -> None:
        """Start a new period: usage is zero, and a breach ends."""
        await self._backend.reset_budget(c.ResetBudgetArgs(budget_id=await self.find(budget_id)))

    async def report(
        self, budget_id: str, amounts: Mapping[str, int], *, dedup_key: str | None = None
    ) -> c.ReportUsageResult:
        """Count usage without an execution if it fits the limits; a `dedup_key` counts once within a day."""
        names, deltas = _amounts(amounts)
        own_id = await self.find(budget_id)
        return await self._backend.report_usage_admin(
            c.ReportUsageAdminArgs(budget_id=own_id, dimensions=names, deltas=deltas, dedup_key=dedup_key)
        )

    async def record_spend(
        self,
        budget_id: str,
        amounts: Mapping[str, int],
        *,
        execution_id: str | None = None,
        dedup_key: str | None = None,
    ) -> c.ReportUsageResult:
        """Count amounts that were already spent, even above the limits."""
        names, deltas = _amounts(amounts)
        return await self._backend.record_spend(
            c.RecordSpendArgs(
                budget_id=await self.find(budget_id),
                dimensions=names,
                deltas=deltas,
                dedup_key=dedup_key,
                execution_id=None if execution_id is None else ExecutionId(execution_id),
            )
        )

    async def release(self, budget_id: str, execution_id: str) -> bool:
        """Refund everything that an execution has spent since the last reset; returns whether there was anything."""
        args = c.ReleaseBudgetArgs(budget_id=await self.find(budget_id), execution_id=ExecutionId(execution_id))
        return isinstance(await self._backend.release_budget(args), c.BudgetReleased)

    async def attach(self, budget_id: str, **scope: Unpack[Scope]) -> None:
        """Apply it to all executions of a scope, too."""
        await _attach(self._backend, c.LimitKind.BUDGET, await self.find(budget_id), scope, is_attached=True)

    async def detach(self, budget_id: str, **scope: Unpack[Scope]) -> None:
        """Remove it from a scope."""
        await _attach(self._backend, c.LimitKind.BUDGET, await self.find(budget_id), scope, is_attached=False)

    async def list(self, *, after: str | None = None, limit: int = 100) -> BudgetIds:
        """The ids of budgets, in order, after a given one."""
        return await self._backend.list_budgets(after=None if after is None else BudgetId(after), limit=limit)


class Quotas:
    """Limits on starts within a window and on running executions: `fabric.quotas`."""

    def __init__(self, backend: EngineBackend) -> None:
        self._backend = backend

    async def create(
        self,
        *,
        max_concurrent: int | None = None,
        rate: int | None = None,
        window: Duration | None = None,
        jitter: Duration = 0,
        key_by: c.QuotaKey | str | None = None,
        quota_policy_id: str | None = None,
        owner: str | None = None,
        **scope: Unpack[Scope],
    ) -> QuotaPolicyId:
        """Create a quota: at most `max_concurrent` running, and `rate` starts per `window` of whole seconds.

        It applies to a namespace, lane, flow or execution; without a scope, to executions that name it. With `key_by`
        each key is counted separately. `owner` works as for budgets.
        """
        found = _scope(scope)
        quota_id = QuotaPolicyId.new() if quota_policy_id is None else QuotaPolicyId(quota_policy_id)
        made = await self._backend.create_quota_policy(
            c.CreateQuotaPolicyArgs(
                quota_policy_id=quota_id,
                window_seconds=_window(window),
                max_requests_per_window=rate or 0,
                max_concurrent=max_concurrent or 0,
                jitter_ms=ms("jitter", jitter),
                key_by=key_by,  # type: ignore[arg-type]  # checked there
                scope_type=found[0] if found else None,
                scope_id=found[1] if found else None,
                namespace=None if owner is None else Namespace(owner),
            )
        )
        return made.quota_policy_id

    async def configure(
        self,
        quota_policy_id: str,
        *,
        max_concurrent: int | None = None,
        rate: int | None = None,
        window: Duration | None = None,
        jitter: Duration = 0,
    ) -> None:
        """Replace all its limits while it is in use; None removes one. Running executions continue, even above them."""
        await self._backend.configure_quota_policy(
            c.ConfigureQuotaPolicyArgs(
                quota_policy_id=QuotaPolicyId(quota_policy_id),
                window_seconds=_window(window),
                max_requests_per_window=rate or 0,
                max_concurrent=max_concurrent or 0,
                jitter_ms=ms("jitter", jitter),
            )
        )

    async def status(self, quota_policy_id: str, *, key: str = "") -> c.QuotaStatus:
        """Its limits, running executions and starts; for one `key` if it counts keys separately."""
        return await self._backend.get_quota_status(QuotaPolicyId(quota_policy_id), key=key)

    async def attach(self, quota_policy_id: str, **scope: Unpack[Scope]) -> None:
        """Apply it to all executions of a scope, too."""
        await _attach(self._backend, c.LimitKind.QUOTA, quota_policy_id, scope, is_attached=True)

    async def detach(self, quota_policy_id: str, **scope: Unpack[Scope]) -> None:
        """Remove it from a scope."""
        await _attach(self._backend, c.LimitKind.QUOTA, quota_policy_id, scope, is_attached=False)

    async def list(self, *, after: str | None = None, limit: int = 100) -> QuotaPolicyIds:
        """The ids of quota policies, in order, after a given one."""
        wanted = None if after is None else QuotaPolicyId(after)
        return await self._backend.list_quota_policies(after=wanted, limit=limit)


def _window(window: Duration | None) -> int:
    if window is None:
        return 0
    window_ms = ms("window", window, low=1000)
    if window_ms % 1000:
        raise InvalidInput("window", window, "must be whole seconds")
    return window_ms // 1000
