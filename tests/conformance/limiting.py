"""Budgets, quotas and limited executions for the suites that need them."""

from __future__ import annotations

from typing import Any

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import BudgetId, QuotaPolicyId, ReservationId
from flowfabric.core.partition import Partition, PartitionFamily, budget_partition
from flowfabric.core.policy import ExecutionPolicy
from flowfabric.core.states import PublicState
from tests.conformance.driver import BACKOFF, INSTANCE, LANE, TTL, WORKER, Driver, Subject
from tests.conformance.suspending import Suspender


class Limits:
    """Makes limits and spends on them."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.backend = driver.backend
        self.probe = driver.probe

    async def budget(
        self, hard: dict[str, int] | None = None, soft: dict[str, int] | None = None, **overrides: Any
    ) -> BudgetId:
        """A budget of a lane that nobody uses, unless a scope is given."""
        hard, soft = hard or {}, soft or {}
        names = tuple(sorted({*hard, *soft})) or ("tokens",)
        args: dict[str, Any] = {
            "budget_id": BudgetId.new(), "scope_type": c.LimitScope.EXECUTION, "scope_id": self.driver.mint(),
            "dimensions": names, "hard_limits": tuple(hard.get(name, 0) for name in names),
            "soft_limits": tuple(soft.get(name, 0) for name in names), **overrides,
        }  # fmt: skip
        result = await self.backend.create_budget(c.CreateBudgetArgs(**args))
        assert isinstance(result, c.BudgetCreated)
        return result.budget_id

    async def report(self, budget_id: BudgetId, dedup: str | None = None, **deltas: int) -> c.ReportUsageResult:
        return await self.backend.report_usage_admin(
            c.ReportUsageAdminArgs(
                budget_id=budget_id, dimensions=tuple(deltas), deltas=tuple(deltas.values()), dedup_key=dedup
            )
        )

    async def spend(
        self, budget_id: BudgetId, x: Subject | None = None, dedup: str | None = None, **deltas: int
    ) -> c.ReportUsageResult:
        return await self.backend.record_spend(
            c.RecordSpendArgs(
                budget_id=budget_id, dimensions=tuple(deltas), deltas=tuple(deltas.values()), dedup_key=dedup,
                execution_id=x.execution_id if x else None,
            )
        )  # fmt: skip

    async def status(self, budget_id: BudgetId) -> c.BudgetStatus:
        return await self.backend.get_budget_status(budget_id)

    async def used(self, budget_id: BudgetId, name: str = "tokens") -> int:
        return (await self.status(budget_id)).usage.get(name, 0)

    async def reset(self, budget_id: BudgetId) -> c.ResetBudgetResult:
        return await self.backend.reset_budget(c.ResetBudgetArgs(budget_id=budget_id))

    async def release(self, budget_id: BudgetId, x: Subject) -> c.ReleaseBudgetResult:
        return await self.backend.release_budget(c.ReleaseBudgetArgs(budget_id=budget_id, execution_id=x.execution_id))

    async def limit(self, budget_id: BudgetId, **hard: int) -> c.BudgetLimitsSet:
        return await self.limits(budget_id, hard, {})

    async def limits(self, budget_id: BudgetId, hard: dict[str, int], soft: dict[str, int]) -> c.BudgetLimitsSet:
        names = tuple(dict.fromkeys((*hard, *soft)))
        args = c.SetBudgetLimitsArgs(
            budget_id=budget_id, dimensions=names, hard_limits=tuple(hard.get(name, 0) for name in names),
            soft_limits=tuple(soft.get(name, 0) for name in names),
        )  # fmt: skip
        return await self.backend.set_budget_limits(args)

    async def reserve(
        self,
        budget_id: BudgetId,
        x: Subject,
        reservation_id: ReservationId | None = None,
        on_crash: c.OnCrash = c.OnCrash.RETURN,
        **amounts: int,
    ) -> tuple[ReservationId, c.ReserveBudgetResult]:
        reservation_id = reservation_id or ReservationId.new()
        args = c.ReserveBudgetArgs(
            execution_id=x.execution_id, fence=x.fence, budget_id=budget_id, reservation_id=reservation_id,
            dimensions=tuple(amounts), amounts=tuple(amounts.values()), on_crash=on_crash,
        )  # fmt: skip
        return reservation_id, await self.backend.reserve_budget(args)

    async def settle(
        self, budget_id: BudgetId, x: Subject, reservation_id: ReservationId, **amounts: int
    ) -> c.ReportUsageResult:
        args = c.SettleReservationArgs(
            execution_id=x.execution_id, budget_id=budget_id, reservation_id=reservation_id,
            dimensions=tuple(amounts), amounts=tuple(amounts.values()),
        )  # fmt: skip
        return await self.backend.settle_reservation(args)

    async def note(
        self, budget_id: BudgetId, x: Subject, reservation_id: ReservationId, **amounts: int
    ) -> c.ReportUsageResult:
        args = c.SettleReservationArgs(
            execution_id=x.execution_id, budget_id=budget_id, reservation_id=reservation_id,
            dimensions=tuple(amounts), amounts=tuple(amounts.values()), ends=False,
        )  # fmt: skip
        return await self.backend.settle_reservation(args)

    async def quota(self, **overrides: Any) -> QuotaPolicyId:
        args: dict[str, Any] = {"quota_policy_id": QuotaPolicyId.new(), **overrides}
        result = await self.backend.create_quota_policy(c.CreateQuotaPolicyArgs(**args))
        assert isinstance(result, c.QuotaPolicyCreated)
        return result.quota_policy_id

    async def quota_status(self, quota_policy_id: QuotaPolicyId, key: str = "") -> c.QuotaStatus:
        return await self.backend.get_quota_status(quota_policy_id, key=key)

    async def submit(
        self,
        *,
        budgets: tuple[BudgetId, ...] = (),
        quotas: tuple[QuotaPolicyId, ...] = (),
        **overrides: Any,
    ) -> Subject:
        """Each a millisecond after the last, so that it is known who comes first."""
        policy = ExecutionPolicy(budget_ids=budgets, quota_policy_ids=quotas)
        await self.driver.clock.advance(1)
        return await self.driver.create(policy=policy, **overrides)

    async def drain(self, x: Subject | None = None) -> c.AdmissionsDrained:
        """Everything that is due in the partition of an execution, until nothing is."""
        index = x.execution_id.partition_index if x else self.driver.mint(LANE).partition_index
        args = c.DrainAdmissionsArgs(partition=Partition(PartitionFamily.FLOW, index))
        while True:
            drained = await self.backend.drain_admissions(args)
            if drained.next_at_ms is None or drained.next_at_ms > drained.now_ms:
                return drained

    def partition(self, budget_id: BudgetId) -> Partition:
        return budget_partition(budget_id, self.backend.partitions)


def ids(subjects: list[Subject]) -> list[str]:
    return [x.execution_id for x in subjects]


async def public(limits: Limits, x: Subject) -> PublicState | None:
    return await limits.backend.get_execution_state(x.execution_id)


def partition_of(x: Subject) -> Partition:
    return Partition(PartitionFamily.FLOW, x.execution_id.partition_index)


async def finish(limits: Limits, x: Subject, **claim: Any) -> b.FinishExecutionsResult:
    """Complete through the batch surface, which passes the slot on by itself."""
    asked = b.ClaimExecutionsArgs(
        lane_id=LANE, worker_id=WORKER, worker_instance_id=INSTANCE, lease_ttl_ms=TTL, **claim
    )
    done = c.CompleteExecutionArgs(execution_id=x.execution_id, fence=x.fence, result_payload=b"")
    args = b.FinishExecutionsArgs(partition=partition_of(x), finish=(done,), claim=asked if claim else None)
    return await limits.backend.finish_executions(args)


async def stop(driver: Driver, x: Subject, how: str) -> Any:
    match how:
        case "complete":
            return await driver.complete(x)
        case "fail":
            return await driver.fail(x)
        case "retry":
            return await driver.fail(x, retry=True)
        case "delay":
            return await driver.delay(x, driver.clock.now_ms + BACKOFF)
        case "cancel":
            return await driver.cancel(x)
        case "lose":
            await driver.clock.advance(TTL)
            return await driver.backend.run_due_work(b.RunDueWorkArgs(partition=partition_of(x)))
        case "suspend":
            waiting = Suspender(driver)
            await waiting.seed()
            return await waiting.suspend(x)
    await driver.clock.advance(3_600_000)
    return await driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE)
