"""Metrics of a store, measured on request: waiting and running executions, and the events since the last request.

Without requests nothing is measured. Each server counts events on its own, from its first request on.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from typing import Final

from msgspec.structs import replace

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.contracts.events import END
from flowfabric.core.states import PublicState
from flowfabric.engine import Engine
from flowfabric.server.metrics.registry import Family, Histogram, Sample, counted

_MOST_PAGES: Final = 50  # of events; the rest is skipped
_MOST_READY: Final = 100_000  # executions whose start is measured
_MOST_BUDGETS: Final = 100
# Events after which an execution may start, and events that start one.
_READY: Final = frozenset({"created", "promoted", "unblocked", "woken", "requeued", "replayed", "retried"})
_STARTED: Final = frozenset({"claimed", "resumed", "reclaimed"})


class Happened:
    """Counts the events of the store."""

    def __init__(self, backend: EngineBackend) -> None:
        self._backend = backend
        self._cursor: str | None = END
        self._counts: Counter[str] = Counter()
        self._passed_over = 0
        self._ready: OrderedDict[str, int] = OrderedDict()
        self._latency = Histogram()
        self._turn = asyncio.Lock()

    async def families(self) -> list[Family]:
        async with self._turn:
            await self._catch_up()
        latency = "From the moment an execution may start to its claim."
        return [
            counted(
                "flowfabric_events_total", "What happened to executions, flows and budgets.", "event", self._counts
            ),
            Family("flowfabric_claim_latency_seconds", "histogram", latency, self._latency.samples()),
            Family(
                "flowfabric_events_passed_over_total",
                "counter",
                "How often there were more events than could be counted.",
                [Sample((), self._passed_over)],
            ),
        ]

    async def _catch_up(self) -> None:
        args = c.ReadEventsArgs(cursor=self._cursor, limit=limits.SCAN_LIMIT_MAX)
        for _ in range(_MOST_PAGES):
            page = await self._backend.read_events(args)
            for event in page.events:
                self._note(event)
            self._cursor = page.cursor or END
            args = replace(args, cursor=self._cursor)
            if not page.more:
                return
        self._passed_over += 1
        self._cursor = (await self._backend.read_events(replace(args, cursor=END))).cursor

    def _note(self, event: c.Event) -> None:
        self._counts[event.event] += 1
        if event.execution_id is None:
            return
        if event.event in _READY:
            self._ready[event.execution_id] = event.at_ms
            if len(self._ready) > _MOST_READY:
                self._ready.popitem(last=False)
        elif event.event in _STARTED:
            since = self._ready.pop(event.execution_id, None)
            if since is not None:
                self._latency.observe(max(0, event.at_ms - since) / 1000)


async def of_lanes(backend: EngineBackend) -> list[Family]:
    """The number of executions, and the age of the oldest waiting one."""
    lanes = await backend.count_executions()
    counts = [
        Sample((("lane", str(each.lane_id)), ("state", str(state))), each.counts.get(state, 0))
        for each in lanes
        for state in PublicState
    ]
    ages = [Sample((("lane", str(each.lane_id)),), (each.oldest_waiting_ms or 0) / 1000) for each in lanes]
    return [
        Family("flowfabric_executions", "gauge", "Executions by lane and state.", counts),
        Family("flowfabric_oldest_waiting_seconds", "gauge", "The age of the oldest that may start.", ages),
    ]


async def of_workers(backend: EngineBackend) -> list[Family]:
    page = await backend.list_workers(c.ListWorkersArgs(limit=limits.SCAN_LIMIT_MAX))
    slots = sum(each.slots for each in page.workers)
    return [
        Family("flowfabric_workers", "gauge", "Live workers.", [Sample((), len(page.workers))]),
        Family("flowfabric_worker_slots", "gauge", "Executions that they can run concurrently.", [Sample((), slots)]),
    ]


async def of_budgets(backend: EngineBackend) -> list[Family]:
    found = [await backend.get_budget_status(each) for each in await backend.list_budgets(limit=_MOST_BUDGETS)]
    used, limit = [], []
    for budget in found:
        for dimension, hard in budget.hard_limits.items():
            labels = (("budget", str(budget.budget_id)), ("scope", budget.scope_id), ("dimension", dimension))
            used.append(Sample(labels, budget.usage.get(dimension, 0)))
            limit.append(Sample(labels, hard))
    labelled = [((("budget", str(each.budget_id)), ("scope", each.scope_id)), each) for each in found]
    breaches = [Sample(labels, each.breach_count) for labels, each in labelled]
    soft = [Sample(labels, each.soft_breach_count) for labels, each in labelled]
    return [
        Family("flowfabric_budget_used", "gauge", "Usage in this period.", used),
        Family("flowfabric_budget_hard_limit", "gauge", "What may be spent.", limit),
        Family("flowfabric_budget_breaches_total", "counter", "How often a hard limit was exceeded.", breaches),
        Family("flowfabric_budget_soft_breaches_total", "counter", "How often a soft limit was exceeded.", soft),
    ]


def of_engine(engine: Engine) -> list[Family]:
    """The state of the engine's services in this process."""
    services = engine.status().services

    def each(name: str, kind: str, help_text: str, attribute: str, scale: float = 1) -> Family:
        found = ((one.name, getattr(one, attribute)) for one in services)
        samples = [Sample((("service", service),), value * scale) for service, value in found if value is not None]
        return Family(f"flowfabric_engine_{name}", kind, help_text, samples)

    return [
        each(
            "lag_seconds", "gauge", "How late the work of a service was, or how old its last pass is.", "lag_ms", 0.001
        ),
        each("run_seconds", "gauge", "How long the last run took.", "duration_ms", 0.001),
        each("runs_total", "counter", "Runs.", "runs"),
        each("items_total", "counter", "What was done.", "items"),
        each("errors_total", "counter", "What failed.", "errors"),
        each("restarts_total", "counter", "Crashes.", "restarts"),
        each("set_aside", "gauge", "Work set aside for a while after a failure.", "set_aside"),
    ]
