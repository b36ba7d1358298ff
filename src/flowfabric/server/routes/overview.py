"""The state of the store now and a moment ago, in one response, for the overview page."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from flowfabric.backends.http.operations import PREFIX, Scope
from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.codec import from_plain
from flowfabric.core.ids import TimestampMs
from flowfabric.core.states import PublicState
from flowfabric.server.access.scopes import check_store
from flowfabric.server.service import Service, answer

_EVERY_MS: Final = 1_000  # how often the store is read, for any number of clients
_KEPT: Final = 600
_BUDGETS: Final = 50
_WORKERS: Final = 1_000


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One sample: how many executions are in each state, and how long the oldest that may start waits."""

    at_ms: TimestampMs
    counts: dict[PublicState, int]
    oldest_waiting_ms: int | None = None


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The latest sample in full, and the samples before it. Rates are differences between two samples."""

    samples: tuple[Sample, ...]
    lanes: tuple[c.LaneCounts, ...]
    workers: tuple[c.WorkerInfo, ...]
    budgets: tuple[c.BudgetStatus, ...]


class OverviewQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Only samples that are newer."""

    since_ms: TimestampMs = 0


class Looks:
    """Reads the store on request, at most once per interval, and caches the result. Idle without requests."""

    def __init__(self, backend: EngineBackend, clock: Callable[[], float] = time.time) -> None:
        self._backend = backend
        self._clock = clock
        self._samples: deque[Sample] = deque(maxlen=_KEPT)
        self._latest = Overview(samples=(), lanes=(), workers=(), budgets=())
        self._looking = asyncio.Lock()

    async def overview(self, since_ms: int) -> Overview:
        async with self._looking:
            now = int(self._clock() * 1000)
            if not self._samples or now - self._samples[-1].at_ms >= _EVERY_MS:
                await self._look(now)
        newer = tuple(each for each in self._samples if each.at_ms > since_ms)
        return msgspec.structs.replace(self._latest, samples=newer)

    async def _look(self, now: int) -> None:
        lanes, workers, budgets = await asyncio.gather(
            self._backend.count_executions(),
            self._backend.list_workers(c.ListWorkersArgs(limit=_WORKERS)),
            self._budgets(),
        )
        counts: Counter[PublicState] = Counter()
        for lane in lanes:
            counts.update(lane.counts)
        oldest = max((each.oldest_waiting_ms for each in lanes if each.oldest_waiting_ms is not None), default=None)
        self._samples.append(Sample(at_ms=now, counts=dict(counts), oldest_waiting_ms=oldest))
        self._latest = Overview(samples=(), lanes=tuple(lanes), workers=workers.workers, budgets=tuple(budgets))

    async def _budgets(self) -> list[c.BudgetStatus]:
        ids = await self._backend.list_budgets(limit=_BUDGETS)
        return list(await asyncio.gather(*(self._backend.get_budget_status(each) for each in ids)))


async def overview(request: Request) -> Response:
    """Counts, workers and budgets of the whole store."""
    service = Service.of(request)
    check_store(service.caller(request, Scope.READ))
    query = from_plain(OverviewQuery, dict(request.query_params), texts=True)
    looks: Looks = request.app.state.looks
    return answer(await looks.overview(query.since_ms))


ROUTES: Final = [Route(f"{PREFIX}/overview", overview)]
