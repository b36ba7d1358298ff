"""Workers over HTTP: a claim that waits for work, and a stream of work announcements."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from flowfabric.backends.http.operations import PREFIX, Scope
from flowfabric.backends.ports import EngineBackend, WorkListener
from flowfabric.core import limits
from flowfabric.core.capability import capability_set
from flowfabric.core.contracts import batch as b
from flowfabric.core.contracts.fields import BatchCount, Capabilities, Checked, DurationMs, LeaseTtlMs
from flowfabric.core.contracts.workers import Lanes, TaskNames, task_names
from flowfabric.core.ids import LaneId, WorkerId, WorkerInstanceId
from flowfabric.errors import InvalidInput
from flowfabric.server.access.scopes import check_store
from flowfabric.server.feeds.items import Item
from flowfabric.server.feeds.sse import Items, stream
from flowfabric.server.http.bounds import read_json
from flowfabric.server.http.decoding import body_of
from flowfabric.server.http.disconnects import disconnected
from flowfabric.server.service import Service, answer


class WaitingClaim(Checked, frozen=True, kw_only=True):
    """Claim up to `count` executions of these lanes; without work, wait for some at most `wait_ms`."""

    lanes: Lanes = msgspec.field(default_factory=lambda: (LaneId("default"),))
    worker_id: WorkerId
    worker_instance_id: WorkerInstanceId
    lease_ttl_ms: LeaseTtlMs = 30_000
    count: BatchCount = 1
    wait_ms: DurationMs = 20_000
    worker_capabilities: Capabilities = ()
    attempt_timeout_ms: DurationMs | None = None
    kinds: TaskNames = ()  # the tasks of the worker, which gets no others; empty: any

    def of(self, lane: LaneId, count: int) -> b.ClaimExecutionsArgs:
        return b.ClaimExecutionsArgs(
            lane_id=lane,
            worker_id=self.worker_id,
            worker_instance_id=self.worker_instance_id,
            lease_ttl_ms=self.lease_ttl_ms,
            count=count,
            worker_capabilities=self.worker_capabilities,
            attempt_timeout_ms=self.attempt_timeout_ms,
            kinds=self.kinds,
        )


async def claim(request: Request) -> Response:
    """The claimed work; empty after the wait."""
    service = Service.of(request)
    token = service.caller(request, Scope.WORK)
    check_store(token)
    wanted = read_json(WaitingClaim, await body_of(request, service.settings))
    found = await _claimed(service.backend, wanted)
    if not found and wanted.wait_ms:
        with service.wait_shares.one(service.name_of(request, token)):
            found = await _waited(service, request, wanted)
    return answer(found)


async def _claimed(backend: EngineBackend, wanted: WaitingClaim) -> list[b.ClaimOutcome]:
    found: list[b.ClaimOutcome] = []
    for lane in wanted.lanes:
        if len(found) < wanted.count:
            found += await backend.claim_executions(wanted.of(lane, wanted.count - len(found)))
    return found


async def _waited(service: Service, request: Request, wanted: WaitingClaim) -> list[b.ClaimOutcome]:
    """Claim again whenever work is announced. A caller that left gets no work, and no claim is interrupted."""
    until = monotonic() + min(wanted.wait_ms, service.settings.long_poll_ms) / 1000
    over = [asyncio.ensure_future(each) for each in (disconnected(request.receive), service.stopping.wait())]
    try:
        listening = service.backend.listen_for_work(wanted.lanes, wanted.worker_capabilities, kinds=wanted.kinds)
        async with listening as listener:
            while await _heard(listener, over, until):
                if found := await _claimed(service.backend, wanted):
                    return found
    finally:
        for each in over:
            each.cancel()
    return []


async def _heard(listener: WorkListener, over: Sequence[asyncio.Future[Any]], until: float) -> bool:
    """Whether work was announced before the timeout."""
    heard = asyncio.ensure_future(listener.wait())
    try:
        left = max(0.0, until - monotonic())
        await asyncio.wait({heard, *over}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        return heard.done() and not any(each.done() for each in over)
    finally:
        heard.cancel()


async def wakeups(request: Request) -> Response:
    """Announced work: pairs of lane and partition; an empty list means anywhere."""
    service = Service.of(request)
    token = service.caller(request, Scope.WORK)
    check_store(token)
    lanes = tuple(LaneId(each) for each in request.query_params.getlist("lane"))
    if len(lanes) > limits.MAX_LANES:
        raise InvalidInput("lane", f"{len(lanes)} lanes", f"must be given at most {limits.MAX_LANES} times")
    capabilities = capability_set(tuple(request.query_params.getlist("capability")), "capability")
    kinds = task_names("kind", request.query_params.getlist("kind"))
    return stream(request, token, _wakeups(service.backend, lanes, capabilities, kinds))


async def _wakeups(
    backend: EngineBackend, lanes: tuple[LaneId, ...], capabilities: tuple[str, ...], kinds: tuple[str, ...]
) -> Items:
    async with backend.listen_for_work(lanes, capabilities, kinds=kinds) as listener:
        while True:
            where = await listener.wait()
            yield Item("work", [{"lane_id": lane, "partition": partition} for lane, partition in where])


async def budget_wakeups(request: Request) -> Response:
    """Partitions with budgets that need attention; an empty list means any."""
    service = Service.of(request)
    token = service.caller(request, Scope.ADMIN)
    check_store(token)
    return stream(request, token, _budget_wakeups(service.backend))


async def _budget_wakeups(backend: EngineBackend) -> Items:
    async with backend.listen_for_budgets() as listener:
        while True:
            yield Item("budgets", list(await listener.wait()))


async def due_wakeups(request: Request) -> Response:
    """Timers that are due soon: partition and milliseconds; an empty list means that some were missed."""
    service = Service.of(request)
    token = service.caller(request, Scope.ADMIN)
    check_store(token)
    return stream(request, token, _due_wakeups(service.backend))


async def _due_wakeups(backend: EngineBackend) -> Items:
    async with backend.listen_for_due() as listener:
        while True:
            yield Item("due", [each._asdict() for each in await listener.wait()])


ROUTES: Final = [
    Route(f"{PREFIX}/work/claim", claim, methods=["POST"]),
    Route(f"{PREFIX}/work/wakeups", wakeups),
    Route(f"{PREFIX}/engine/budget-wakeups", budget_wakeups),
    Route(f"{PREFIX}/engine/due-wakeups", due_wakeups),
]
