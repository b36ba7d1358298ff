"""Handlers that spend: reports that count once, reservations, and what becomes of those that a budget refuses."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from flowfabric import Context, ExecutionFailed, Handle, RetryPolicy, Worker
from flowfabric.core import contracts as c
from flowfabric.core.policy import FixedBackoff
from flowfabric.errors import BudgetExceeded, InvalidInput
from flowfabric.testing import FabricKit
from tests.worker_tasks import spend_in_process

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

AT_ONCE = RetryPolicy(max_retries=3, backoff=FixedBackoff(delay_ms=0))


@pytest.fixture
def worker() -> Worker:
    return Worker(worker_instance_id="worker-1")


async def used(kit: FabricKit, budget_id: str, name: str = "tokens") -> int:
    return (await kit.budgets.status(budget_id)).usage.get(name, 0)


async def run(kit: FabricKit, worker: Worker, task: Any, *args: Any) -> Handle[Any]:
    handle = await kit.submit(task, *args)
    await kit.run_until_idle(worker)
    return handle


async def test_a_report_goes_to_every_budget_of_the_execution(fabric_kit: FabricKit, worker: Worker) -> None:
    limits = {"tokens": 100}
    scopes: list[Any] = [{}, {"lane": "default"}, {"namespace": "default"}]
    own, lane, namespace = [await fabric_kit.budgets.create(limits, **scope) for scope in scopes]
    other = await fabric_kit.budgets.create(limits, lane="elsewhere")

    @worker.task(budgets=[own])
    async def spend(ctx: Context) -> None:
        await ctx.use(tokens=7)
        await ctx.use(own, tokens=1)

    handle = await run(fabric_kit, worker, spend)
    assert await handle.result() is None
    assert [await used(fabric_kit, each) for each in (own, lane, namespace, other)] == [8, 7, 7, 0]
    assert await fabric_kit.budgets.usage(own, handle.id) == {"tokens": 8}


async def test_without_a_budget_nothing_is_counted_and_nothing_refused(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task
    async def spend(ctx: Context) -> int:
        return len((await ctx.use(tokens=10**9)).soft_breaches)

    assert await (await run(fabric_kit, worker, spend)).result() == 0


@pytest.mark.parametrize("amounts", [{}, {"tokens": -1}, {"tokens": 1.5}, {"tokens": True}, {"1x": 1}])
async def test_amounts_that_cannot_be_counted_are_refused(
    fabric_kit: FabricKit, worker: Worker, amounts: dict[str, Any]
) -> None:
    budget = await fabric_kit.budgets.create({"tokens": 10}, lane="default")

    @worker.task
    async def spend(ctx: Context) -> str:
        with pytest.raises(InvalidInput) as refusal:
            await ctx.use(**amounts)
        return str(refusal.value.field)

    assert await (await run(fabric_kit, worker, spend)).result() in ("amounts", "tokens", "dimensions")
    assert await used(fabric_kit, budget) == 0


async def test_a_handler_that_goes_on_after_a_wait_has_spent_once(fabric_kit: FabricKit, worker: Worker) -> None:
    budget = await fabric_kit.budgets.create({"tokens": 100}, lane="default")

    async def call(ctx: Context) -> int:
        await ctx.use(tokens=5)
        return 5

    @worker.task
    async def spend(ctx: Context) -> None:
        await ctx.use(tokens=5)
        await ctx.use(tokens=5)
        await ctx.step("call", call, ctx)
        async with ctx.reserve(tokens=20) as held:
            held.used(tokens=11)
        await ctx.sleep(2 * 86_400)  # longer than the store knows a report
        await ctx.use(tokens=5)

    handle = await run(fabric_kit, worker, spend)
    assert await used(fabric_kit, budget) == 26
    await fabric_kit.sleep_through(handle)
    await fabric_kit.run_until_idle(worker)
    assert await handle.result() is None
    assert await used(fabric_kit, budget) == 31


async def test_every_attempt_spends_for_itself(fabric_kit: FabricKit, worker: Worker) -> None:
    budget = await fabric_kit.budgets.create({"tokens": 100}, lane="default")

    @worker.task(retry=AT_ONCE)
    async def spend(ctx: Context) -> None:
        await ctx.use(tokens=10)
        if ctx.attempt_index < 2:
            raise ValueError("again")

    await run(fabric_kit, worker, spend)
    assert await used(fabric_kit, budget) == 30


async def test_a_report_whose_answer_was_lost_counts_once(
    fabric_kit: FabricKit, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = await fabric_kit.budgets.create({"tokens": 100}, lane="default")
    failed: list[Any] = []
    send = fabric_kit._store.report_usage_and_check

    async def lose(args: Any) -> Any:
        result = await send(args)
        if not failed:
            failed.append(1)
            raise ConnectionError("the answer was lost")
        return result

    monkeypatch.setattr(fabric_kit._store, "report_usage_and_check", lose)

    @worker.task
    async def spend(ctx: Context) -> None:
        with pytest.raises(ConnectionError):
            await ctx.use(tokens=10)
        await ctx.use(tokens=10)  # the same one, tried again

    handle = await run(fabric_kit, worker, spend)
    assert await handle.status() == "completed"
    assert await used(fabric_kit, budget) == 10


async def test_a_soft_limit_is_told_once(
    fabric_kit: FabricKit, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    budget = await fabric_kit.budgets.create({"tokens": 100}, soft={"tokens": 10}, lane="default")

    @worker.task
    async def spend(ctx: Context) -> list[list[int]]:
        usages = [await ctx.use(tokens=6) for _ in range(3)]
        return [[breach.current_usage for breach in usage.soft_breaches.values()] for usage in usages]

    with caplog.at_level(logging.WARNING, "flowfabric.worker"):
        assert await (await run(fabric_kit, worker, spend)).result() == [[], [12], []]
    told = [record for record in caplog.records if str(budget) in record.getMessage()]
    assert len(told) == 1
    assert "soft limit of 10" in told[0].getMessage()


async def test_a_refused_report_names_the_budget_and_its_numbers(fabric_kit: FabricKit, worker: Worker) -> None:
    budget = await fabric_kit.budgets.create({"tokens": 10}, lane="default")

    @worker.task
    async def spend(ctx: Context) -> None:
        await ctx.use(tokens=6)
        await ctx.use(tokens=6)

    handle = await run(fabric_kit, worker, spend)
    with pytest.raises(ExecutionFailed, match=f"budget {budget}: tokens is at 6 of 10") as failure:
        await handle.result()
    assert failure.value.category == "budget_exceeded"
    assert await used(fabric_kit, budget) == 6


async def test_what_a_handler_made_of_a_refusal_stays_when_it_goes_on(fabric_kit: FabricKit, worker: Worker) -> None:
    budget = await fabric_kit.budgets.create({"tokens": 10}, lane="default")

    @worker.task
    async def spend(ctx: Context) -> str:
        try:
            await ctx.use(tokens=11)
        except BudgetExceeded as refusal:
            await ctx.wait_for_signal("go")
            return f"refused: {refusal.details}"
        return "counted"

    handle = await run(fabric_kit, worker, spend)
    await fabric_kit.budgets.set_limits(budget, {"tokens": 100})
    await handle.signal("go")
    await fabric_kit.run_until_idle(worker)
    told = {"budget_id": str(budget), "dimension": "tokens", "used": 0, "limit": 10}
    assert await handle.result() == f"refused: {told}"
    assert await used(fabric_kit, budget) == 0


async def test_a_reservation_counts_what_was_used_and_returns_the_rest(fabric_kit: FabricKit, worker: Worker) -> None:
    budget = await fabric_kit.budgets.create({"tokens": 100}, lane="default")

    @worker.task
    async def spend(ctx: Context) -> list[int]:
        async with ctx.reserve(tokens=40) as held:
            reserved = (await fabric_kit.budgets.status(budget)).reserved["tokens"]
            with pytest.raises(BudgetExceeded, match="at 40 of 100"):
                await ctx.use(tokens=61)
            held.used(tokens=5)
            held.used(tokens=6)
        with pytest.raises(ValueError, match="inside"):
            async with ctx.reserve(tokens=10):
                raise ValueError("inside")
        return [reserved]

    assert await (await run(fabric_kit, worker, spend)).result() == [40]
    status = await fabric_kit.budgets.status(budget)
    assert (status.usage, status.reserved) == ({"tokens": 11}, {})


async def test_a_reservation_is_held_on_all_budgets_or_on_none(fabric_kit: FabricKit, worker: Worker) -> None:
    budgets = [await fabric_kit.budgets.create({"tokens": limit}, lane="default") for limit in (100, 10)]

    @worker.task
    async def spend(ctx: Context) -> None:
        async with ctx.reserve(tokens=40):
            raise AssertionError("not held")

    with pytest.raises(ExecutionFailed, match="is at 0 of 10"):
        await (await run(fabric_kit, worker, spend)).result()
    assert [(await fabric_kit.budgets.status(each)).reserved for each in budgets] == [{}, {}]


async def test_a_reservation_is_made_again_after_a_wait_inside_of_it(fabric_kit: FabricKit, worker: Worker) -> None:
    budget = await fabric_kit.budgets.create({"tokens": 100}, lane="default")

    @worker.task
    async def spend(ctx: Context) -> None:
        async with ctx.reserve(tokens=40) as held:
            await ctx.wait_for_signal("go")
            held.used(tokens=3)

    handle = await run(fabric_kit, worker, spend)
    assert (await fabric_kit.budgets.status(budget)).reserved == {}
    await handle.signal("go")
    await fabric_kit.run_until_idle(worker)
    assert await handle.result() is None
    status = await fabric_kit.budgets.status(budget)
    assert (status.usage, status.reserved) == ({"tokens": 3}, {})


class TestAskingAPerson:
    """A budget whose policy is to suspend."""

    @pytest.fixture
    async def budget(self, fabric_kit: FabricKit) -> str:
        return await fabric_kit.budgets.create({"tokens": 10}, on_hard_limit="suspend", lane="default")

    async def paused(self, kit: FabricKit, worker: Worker, task: Any) -> Handle[Any]:
        handle = await run(kit, worker, task)
        (entry,) = (await kit.suspended(reason="paused_by_budget")).entries
        assert entry.execution_id == handle.id
        return handle

    async def answered(self, kit: FabricKit, worker: Worker, handle: Handle[Any], payload: object) -> None:
        await handle.signal("budget", payload, source="ada")
        await kit.run_until_idle(worker)

    async def test_a_raise_lets_the_same_report_through(
        self, fabric_kit: FabricKit, worker: Worker, budget: str
    ) -> None:
        passes = []

        @worker.task
        async def spend(ctx: Context) -> int:
            passes.append(ctx.attempt_index)
            for _ in range(5):
                await ctx.use(tokens=6)
            return len(passes)

        handle = await self.paused(fabric_kit, worker, spend)
        assert await used(fabric_kit, budget) == 6
        await self.answered(fabric_kit, worker, handle, {"raise": {"tokens": 20}})
        assert await handle.status() == "suspended"
        assert await used(fabric_kit, budget) == 18
        await self.answered(fabric_kit, worker, handle, {"raise": {"tokens": 1000}})
        assert await handle.result() == 3
        assert await used(fabric_kit, budget) == 30
        assert passes == [0, 0, 0]

    async def test_a_no_is_told_to_the_handler(self, fabric_kit: FabricKit, worker: Worker, budget: str) -> None:
        @worker.task
        async def spend(ctx: Context) -> str:
            try:
                await ctx.use(tokens=11)
            except BudgetExceeded as refusal:
                await ctx.sleep(1)
                return refusal.message
            return "counted"

        handle = await self.paused(fabric_kit, worker, spend)
        await self.answered(fabric_kit, worker, handle, {"approve": False, "reason": "too much"})
        await fabric_kit.budgets.set_limits(budget, {"tokens": 1000})
        await fabric_kit.sleep_through(handle)
        await fabric_kit.run_until_idle(worker)
        assert "the answer was no (too much)" in await handle.result()
        assert await used(fabric_kit, budget) == 0

    @pytest.mark.parametrize("payload", ["perhaps", True, {"raise": {"tokens": 5}}, {"raise": {"other": 50}}])
    async def test_an_answer_that_makes_no_room_is_asked_for_again(
        self, fabric_kit: FabricKit, worker: Worker, budget: str, payload: object
    ) -> None:
        @worker.task
        async def spend(ctx: Context) -> None:
            await ctx.use(tokens=11)

        handle = await self.paused(fabric_kit, worker, spend)
        await self.answered(fabric_kit, worker, handle, payload)
        assert await handle.status() == "suspended"
        await fabric_kit.budgets.reset(budget)
        await fabric_kit.budgets.set_limits(budget, {"tokens": 11})
        await self.answered(fabric_kit, worker, handle, None)
        assert await handle.result() is None
        assert await used(fabric_kit, budget) == 11

    async def test_a_reservation_asks_too(self, fabric_kit: FabricKit, worker: Worker, budget: str) -> None:
        @worker.task
        async def spend(ctx: Context) -> None:
            async with ctx.reserve(tokens=40) as held:
                held.used(tokens=30)

        handle = await self.paused(fabric_kit, worker, spend)
        await self.answered(fabric_kit, worker, handle, {"raise": {"tokens": 40}})
        assert await handle.result() is None
        assert await used(fabric_kit, budget) == 30

    async def test_a_step_cannot_wait_for_an_answer(self, fabric_kit: FabricKit, worker: Worker, budget: str) -> None:
        async def call(ctx: Context) -> None:
            await ctx.use(tokens=11)

        @worker.task
        async def spend(ctx: Context) -> None:
            await ctx.step("call", call, ctx)

        with pytest.raises(ExecutionFailed, match="a step cannot wait for an answer"):
            await (await run(fabric_kit, worker, spend)).result()


async def test_nobody_is_asked_where_another_budget_refuses_anyway(fabric_kit: FabricKit, worker: Worker) -> None:
    for policy in ("suspend", "reject", "suspend"):
        await fabric_kit.budgets.create({"tokens": 10}, on_hard_limit=policy, lane="default")

    @worker.task
    async def spend(ctx: Context) -> None:
        await ctx.use(tokens=11)

    assert await (await run(fabric_kit, worker, spend)).status() == "failed"


async def test_handlers_in_threads_spend_with_wait(fabric_kit: FabricKit, worker: Worker) -> None:
    budget = await fabric_kit.budgets.create({"tokens": 10}, on_hard_limit="suspend", lane="default")

    @worker.task
    def spend(ctx: Context) -> str:
        ctx.wait(ctx.use(tokens=6))
        ctx.wait(ctx.use(tokens=6))
        return "done"

    handle = await run(fabric_kit, worker, spend)
    assert await handle.status() == "suspended"
    await handle.signal("budget", {"raise": {"tokens": 12}})
    await fabric_kit.run_until_idle(worker)
    assert await handle.result() == "done"
    assert await used(fabric_kit, budget) == 12


async def test_handlers_in_processes_spend_through_their_worker(fabric_kit: FabricKit, worker: Worker) -> None:
    budget = await fabric_kit.budgets.create({"tokens": 10}, on_hard_limit="suspend", lane="default")
    rejecting = await fabric_kit.budgets.create({"calls": 1}, lane="default")
    worker.add(spend_in_process, cpu=True)
    fabric_kit.patience = 60
    handle = await fabric_kit.submit(spend_in_process)
    await fabric_kit.run_until_idle(worker, timeout=60)
    assert await handle.status() == "suspended"
    await handle.signal("budget", {"raise": {"tokens": 100}})
    await fabric_kit.run_until_idle(worker, timeout=60)
    assert await handle.result() == ["calls", 1, 1]
    assert (await fabric_kit.budgets.status(budget)).usage == {"tokens": 19, "calls": 2}, "it had room"
    assert (await fabric_kit.budgets.status(rejecting)).usage == {"tokens": 19, "calls": 1}


class TestCrashes:
    """A worker that dies within a reservation."""

    @pytest.fixture
    def noted(self, fabric_kit: FabricKit, monkeypatch: pytest.MonkeyPatch) -> asyncio.Queue[int]:
        """The totals that the store has noted."""
        totals: asyncio.Queue[int] = asyncio.Queue()
        settle = fabric_kit._store.settle_reservation

        async def watched(args: c.SettleReservationArgs) -> c.ReportUsageResult:
            result = await settle(args)
            if not args.ends:
                totals.put_nowait(sum(args.amounts))
            return result

        monkeypatch.setattr(fabric_kit._store, "settle_reservation", watched)
        return totals

    @pytest.mark.parametrize(("on_crash", "counted"), [("return", 7), ("spend", 40)])
    async def test_what_it_is_known_to_have_used_counts(
        self, fabric_kit: FabricKit, worker: Worker, noted: asyncio.Queue[int], on_crash: Any, counted: int
    ) -> None:
        budget = await fabric_kit.budgets.create({"tokens": 100}, lane="default")

        @worker.task
        async def spend(ctx: Context) -> str:
            if ctx.attempt_index:
                return "again"
            async with ctx.reserve(tokens=40, on_crash=on_crash) as held:
                held.used(tokens=3)
                held.used(tokens=4)
                while await noted.get() < 7:
                    pass
                await fabric_kit.kill_worker(worker)
            return "alive"

        handle = await fabric_kit.submit(spend)
        await fabric_kit.start_worker(worker)
        await fabric_kit.run_until_idle()
        await fabric_kit.advance(30)
        await fabric_kit.run_until_idle(worker)
        assert await handle == "again"
        status = await fabric_kit.budgets.status(budget)
        assert (status.usage, status.reserved) == ({"tokens": counted}, {})

    async def test_a_wait_inside_of_a_reservation_counts_nothing_twice(
        self, fabric_kit: FabricKit, worker: Worker, noted: asyncio.Queue[int]
    ) -> None:
        budget = await fabric_kit.budgets.create({"tokens": 100}, lane="default")

        @worker.task
        async def spend(ctx: Context) -> None:
            async with ctx.reserve(tokens=40) as held:
                held.used(tokens=5)
                await noted.get()
                await ctx.wait_for_signal("go")

        handle = await run(fabric_kit, worker, spend)
        assert (await fabric_kit.budgets.status(budget)).usage == {}
        await handle.signal("go")
        await fabric_kit.run_until_idle(worker)
        assert (await fabric_kit.budgets.status(budget)).usage == {"tokens": 5}

    async def test_on_crash_has_two_values(self, fabric_kit: FabricKit, worker: Worker) -> None:
        @worker.task
        async def spend(ctx: Context) -> None:
            ctx.reserve(tokens=40, on_crash="keep")  # type: ignore[arg-type]

        handle = await run(fabric_kit, worker, spend)
        assert "on_crash: must be one of return, spend" in str((await handle.describe()).failure_reason)

    async def test_an_end_that_the_worker_sees_counts_what_was_used(
        self, fabric_kit: FabricKit, worker: Worker
    ) -> None:
        budget = await fabric_kit.budgets.create({"tokens": 100}, lane="default")

        @worker.task
        async def spend(ctx: Context) -> None:
            async with ctx.reserve(tokens=40) as held:
                held.used(tokens=5)
                raise SystemExit

        await run(fabric_kit, worker, spend)
        status = await fabric_kit.budgets.status(budget)
        assert (status.usage, status.reserved) == ({"tokens": 5}, {})

    async def test_an_attempt_that_is_handed_back_counts_nothing_twice(
        self, fabric_kit: FabricKit, worker: Worker
    ) -> None:
        budget = await fabric_kit.budgets.create({"tokens": 100}, lane="default")
        began, go_on = asyncio.Event(), asyncio.Event()

        @worker.task
        async def spend(ctx: Context) -> None:
            async with ctx.reserve(tokens=40) as held:
                held.used(tokens=5)
                await held.noted()
                began.set()
                await go_on.wait()

        handle = await fabric_kit.submit(spend)
        await fabric_kit.start_worker(worker)
        await began.wait()
        await fabric_kit.stop_worker(worker)
        await fabric_kit.apply_due()
        assert (await fabric_kit.budgets.status(budget)).usage == {}
        go_on.set()
        await fabric_kit.advance(30)
        await fabric_kit.run_until_idle(worker)
        assert await handle is None
        assert (await fabric_kit.budgets.status(budget)).usage == {"tokens": 5}
