"""A store that does as it is told, and a timer that stands still, for the engine's unit tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Collection
from contextlib import asynccontextmanager
from typing import Any, cast

from flowfabric.backends.ports import EngineBackend
from flowfabric.backends.ports.upkeep import DueSoon
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import BudgetId, LaneId
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.engine.ownership import Territory
from flowfabric.engine.service import Surroundings
from flowfabric.engine.settings import EngineSettings
from flowfabric.engine.slots import Slots
from flowfabric.engine.timing import Timer

_TURNS = 30  # enough for a task to pass a result through everything in between


def part(index: int) -> Partition:
    return Partition(PartitionFamily.FLOW, index)


async def settle() -> None:
    """Let everything happen that can happen without time."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


class ManualTimer(Timer):
    """Time passes when the test says so."""

    def __init__(self) -> None:
        self._now = 1_000_000.0
        self._alarms: list[tuple[float, asyncio.Future[None]]] = []

    def now_ms(self) -> float:
        return self._now

    async def wait(self, event: asyncio.Event, ms: float) -> None:
        waiting = asyncio.ensure_future(event.wait())
        try:
            await self.wait_for_all([waiting], ms)
        finally:
            waiting.cancel()

    async def wait_for_all(self, tasks: Collection[asyncio.Future[Any]], ms: float) -> None:
        if not tasks:
            return
        alarm: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._alarms.append((self._now + ms, alarm))
        everything = asyncio.ensure_future(asyncio.wait(tasks))
        try:
            await asyncio.wait([everything, alarm], return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]
        finally:
            everything.cancel()
            alarm.cancel()

    async def advance(self, ms: float) -> None:
        """From alarm to alarm, as time would."""
        end = self._now + ms
        await settle()
        while due := [(at, alarm) for at, alarm in self._alarms if at <= end and not alarm.done()]:
            at, alarm = min(due, key=lambda each: each[0])
            self._now = max(self._now, at)
            alarm.set_result(None)
            await settle()
        self._alarms = [(at, alarm) for at, alarm in self._alarms if not alarm.done()]
        self._now = end

    async def pass_in(self, ms: float, awaited: Awaitable[Any]) -> Any:
        """Let time pass while something is awaited."""
        task = asyncio.ensure_future(awaited)
        await self.advance(ms)
        return await task


class FakeStore:
    """Partitions with due times, blocked executions, records and workers, and whatever should go wrong with them."""

    def __init__(self, timer: ManualTimer) -> None:
        self.timer = timer
        self.skew_ms = 5_000_000  # the store's clock is not ours
        self.calls: list[tuple[str, Partition | None]] = []
        self.replicas: tuple[str, ...] | None = None  # None: whoever asks, alone
        self.holds: list[c.HoldShareArgs] = []
        self.in_use: list[Partition] = []
        self.due: dict[Partition, list[int]] = {}
        self.undoable: set[Partition] = set()  # says due, and nothing can be done
        self.quiet: set[Partition] = set()  # no queue has work
        self.lanes: list[LaneId] = []
        self.listening: tuple[LaneId, ...] = ()
        self.announced: asyncio.Queue[frozenset[tuple[LaneId, Partition]] | Exception] = asyncio.Queue()
        self.blocked: dict[Partition, int] = {}
        self.records: dict[Partition, int] = {}
        self.workers: list[c.WorkerOffer] = []
        self.offers: tuple[c.WorkerOffer, ...] = ()  # what blocked work was held against last
        self.silent_workers = 0
        self.finished = 0
        self.trims: list[c.TrimExecutionsArgs] = []
        self.failing: dict[Partition | str, BaseException] = {}
        self.hanging: dict[Partition | str, asyncio.Event] = {}
        self.budgets_in: list[Partition] = []
        self.limits_in: dict[Partition, int] = {}  # how many slots each has to be released
        self.budget_news: asyncio.Queue[frozenset[Partition]] = asyncio.Queue()
        self.due_news: asyncio.Queue[frozenset[DueSoon]] = asyncio.Queue()
        self.resets: dict[Partition, int] = {}  # when budgets are to be reset
        self.limits_due: dict[Partition, int] = {}  # when there is something to do with limits

    @property
    def backend(self) -> EngineBackend:
        return cast("EngineBackend", self)

    @property
    def now(self) -> int:
        return int(self.timer.now_ms()) + self.skew_ms

    def count(self, operation: str, partition: Partition | None = None) -> int:
        return sum(name == operation and partition in (None, where) for name, where in self.calls)

    def due_in(self, partition: Partition, *delays_ms: int) -> None:
        self.due.setdefault(partition, []).extend(self.now + delay for delay in delays_ms)

    async def _called(self, operation: str, partition: Partition | None = None) -> None:
        self.calls.append((operation, partition))
        for what in (operation, partition):
            if what in self.hanging:
                await self.hanging[what].wait()
            if what in self.failing:
                raise self.failing[what]

    async def hold_share(self, args: c.HoldShareArgs) -> c.EngineShares:
        await self._called("hold_share")
        self.holds.append(args)
        others = (args.replica_id,) if self.replicas is None else self.replicas
        return c.EngineShares(replicas=tuple(each for each in others if not (args.leave and each == args.replica_id)))

    async def partitions_in_use(self) -> list[Partition]:
        await self._called("partitions_in_use")
        return list(self.in_use)

    async def next_due(self, partition: Partition) -> c.NextDue:
        await self._called("next_due", partition)
        at = min(self.due.get(partition, ()), default=None)
        limits_at = self.limits_due.get(partition)
        return c.NextDue(at_ms=cast("Any", at), now_ms=cast("Any", self.now), limits_at_ms=cast("Any", limits_at))

    async def run_due_work(self, args: b.RunDueWorkArgs) -> b.DueWork:
        await self._called("run_due_work", args.partition)
        waiting = sorted(self.due.get(args.partition, ()))
        ready = [at for at in waiting if at <= self.now][: args.limit]
        done = 0 if args.partition in self.undoable else len(ready)
        self.due[args.partition] = waiting[done:]
        more = len(ready) == args.limit
        return b.DueWork(requeued=0, promoted=done, timed_out=0, expired=0, failed=0, more=more)

    async def announce_work(self, partition: Partition) -> int:
        await self._called("announce_work", partition)
        return 0 if partition in self.quiet else 1

    async def reevaluate_blocked(self, args: c.ReevaluateBlockedArgs) -> c.BlockedReevaluated:
        await self._called("reevaluate_blocked", args.partition)
        self.offers = args.offers
        start = int(args.cursor or 0)
        end = min(start + args.limit, self.blocked.get(args.partition, 0))
        more = end < self.blocked.get(args.partition, 0)
        return c.BlockedReevaluated(checked=end - start, unblocked=end - start, cursor=str(end) if more else None)

    async def drain_admissions(self, args: c.DrainAdmissionsArgs) -> c.AdmissionsDrained:
        await self._called("drain_admissions", args.partition)
        return c.AdmissionsDrained(now_ms=round(self.timer.now_ms()))

    async def limit_partitions_in_use(self) -> list[Partition]:
        await self._called("limit_partitions_in_use")
        return list(self.limits_in)

    async def reconcile_limits(self, args: c.ReconcileLimitsArgs) -> c.LimitsReconciled:
        await self._called("reconcile_limits", args.partition)
        start = int(args.cursor or 0)
        end = min(start + args.limit, self.limits_in.get(args.partition, 0))
        more = end < self.limits_in.get(args.partition, 0)
        return c.LimitsReconciled(checked=end - start, released=end - start, cursor=str(end) if more else None)

    async def forget_parked_claims(self, *, limit: int = 100) -> int:
        await self._called("forget_parked_claims")
        return 0

    async def repair_indexes(self, args: c.RepairIndexesArgs) -> c.IndexesRepaired:
        await self._called("repair_indexes", args.partition)
        start = int(args.cursor or 0)
        end = min(start + args.limit, self.records.get(args.partition, 0))
        more = end < self.records.get(args.partition, 0)
        return c.IndexesRepaired(checked=end - start, repaired=end - start, cursor=str(end) if more else None)

    async def trim_executions(self, args: c.TrimExecutionsArgs) -> c.TrimExecutionsResult:
        await self._called("trim_executions")
        self.trims.append(args)
        deleted = min(self.finished, args.limit)
        self.finished -= deleted
        return c.ExecutionsTrimmed(deleted=deleted, cursor=f"left-{self.finished}" if self.finished else None)

    async def list_lanes(self, args: c.ListLanesArgs) -> c.ListLanesPage:
        await self._called("list_lanes")
        return c.ListLanesPage(lanes=tuple(self.lanes[: args.limit]))

    @asynccontextmanager
    async def listen_for_work(self, lane_ids: Collection[LaneId]) -> AsyncIterator[FakeStore]:
        await self._called("listen_for_work")
        self.listening = tuple(lane_ids)
        try:
            yield self
        finally:
            self.listening = ()

    async def wait(self) -> frozenset[tuple[LaneId, Partition]]:
        """As the listener."""
        heard = await self.announced.get()
        if isinstance(heard, Exception):
            raise heard
        return heard

    async def budget_partitions_in_use(self) -> list[Partition]:
        await self._called("budget_partitions_in_use")
        return self.budgets_in

    async def reset_due_budgets(self, partition: Partition, *, limit: int = 100) -> c.DueBudgetsReset:
        await self._called("reset_due_budgets", partition)
        at = self.resets.get(partition)
        if at is None or at > self.now:
            return c.DueBudgetsReset(next_at_ms=cast("Any", at), now_ms=cast("Any", self.now))
        del self.resets[partition]
        return c.DueBudgetsReset(budget_ids=(BudgetId.new(),), now_ms=cast("Any", self.now))

    async def read_budget_notices(self, partition: Partition, **_: Any) -> list[c.BudgetNotice]:
        await self._called("read_budget_notices", partition)
        return []

    @asynccontextmanager
    async def listen_for_budgets(self) -> AsyncIterator[FakeBudgetListener]:
        await self._called("listen_for_budgets")
        yield FakeBudgetListener(self.budget_news)

    async def read_watched_ends(self, partition: Partition, **_: Any) -> list[c.WatchedEnd]:
        await self._called("read_watched_ends", partition)
        return []

    @asynccontextmanager
    async def listen_for_due(self) -> AsyncIterator[FakeDueListener]:
        await self._called("listen_for_due")
        yield FakeDueListener(self.due_news)

    async def list_workers(self, args: c.ListWorkersArgs) -> c.ListWorkersPage:
        await self._called("list_workers")
        start = int(args.cursor or 0)
        end = min(start + args.limit, len(self.workers))
        return c.ListWorkersPage(
            workers=tuple(cast("Any", self.workers[start:end])),
            next_cursor=str(end) if end < len(self.workers) else None,
        )

    async def expire_workers(self, *, limit: int = 100) -> int:
        await self._called("expire_workers")
        expired = min(self.silent_workers, limit)
        self.silent_workers -= expired
        return expired


class FakeBudgetListener:
    def __init__(self, news: asyncio.Queue[frozenset[Partition]]) -> None:
        self._news = news

    async def wait(self) -> frozenset[Partition]:
        return await self._news.get()


class FakeDueListener:
    def __init__(self, news: asyncio.Queue[frozenset[DueSoon]]) -> None:
        self._news = news

    async def wait(self) -> frozenset[DueSoon]:
        return await self._news.get()


class Scene:
    """One replica's surroundings over the fakes."""

    def __init__(self, **settings: Any) -> None:
        self.timer = ManualTimer()
        self.store = FakeStore(self.timer)
        self.around = Surroundings(
            backend=self.store.backend,
            settings=EngineSettings(**{"jitter_pct": 0, **settings}),
            territory=Territory("me"),
            timer=self.timer,
            slots=Slots(4),
        )

    def use(self, *indexes: int) -> list[Partition]:
        """Partitions in use, all of them this replica's."""
        partitions = [part(index) for index in indexes]
        self.store.in_use = partitions
        self.around.territory.find(partitions)
        return partitions
