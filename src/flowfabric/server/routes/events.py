"""Events as streams: of one execution, of the members of a flow, of a lane, of a namespace."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from flowfabric.backends.http.operations import BY_PORT, PREFIX, Scope
from flowfabric.core import contracts as c
from flowfabric.core.contracts.flows.flow import FLOW_ENDINGS
from flowfabric.core.ids import ExecutionId, FlowId
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.errors import ExecutionNotFound, NotFound
from flowfabric.server.access.scopes import narrowed
from flowfabric.server.feeds import event_sources
from flowfabric.server.feeds.event_sources import ExecutionEvents, LogSource
from flowfabric.server.feeds.items import Item
from flowfabric.server.feeds.reading import Turn
from flowfabric.server.feeds.sse import Items, last_seen, stream
from flowfabric.server.http.decoding import query_of
from flowfabric.server.service import Service

_READ: Final = BY_PORT["read_events"]
_FLOW_ENDED: Final = frozenset(FLOW_ENDINGS.values())


async def execution_events(request: Request) -> Response:
    """The events of one execution, until it ends."""
    service = Service.of(request)
    token = service.caller(request, Scope.READ)
    execution_id = ExecutionId(request.path_params["execution_id"])
    if await service.store(token).get_execution_state(execution_id) is None:
        raise ExecutionNotFound(f"{execution_id} does not exist")
    place = last_seen(request)
    if place is not None:  # refused here, where the response still has a status
        await service.backend.history(execution_id, cursor=place, limit=1)
    return stream(request, token, _of_execution(service, execution_id, place, service.turn(request, token)))


async def _of_execution(service: Service, execution_id: ExecutionId, place: str | None, turn: Turn) -> Items:
    def source() -> ExecutionEvents:
        return ExecutionEvents(service.backend, execution_id)

    async with aclosing(service.feeds.follow(execution_id, source, place, turn)) as pages:
        async for told in pages:
            if told.entries:
                yield told.text
    state = await service.backend.get_execution_state(execution_id)
    yield Item("end", {"execution_id": execution_id, "public_state": state})


async def flow_events(request: Request) -> Response:
    """The state of a flow, the events of its members, and its outcome."""
    service = Service.of(request)
    token = service.caller(request, Scope.READ)
    flow_id = FlowId(request.path_params["flow_id"])
    flow = await service.store(token).describe_flow(flow_id)
    if flow is None:
        raise NotFound(f"{flow_id} does not exist", code="flow_not_found")
    source, place = event_sources.flow_events(service.backend, flow_id), last_seen(request)
    if place is not None:
        await service.backend.read_events(replace(source.wanted, cursor=place, limit=1))
    return stream(request, token, _of_flow(service, flow, source, place, service.turn(request, token)))


async def _of_flow(service: Service, flow: c.FlowSnapshot, source: LogSource, place: str | None, turn: Turn) -> Items:
    yield Item("state", _state(flow))
    last, may_be_over = flow, flow.public_flow_state in _FLOW_ENDED
    async with aclosing(service.log_hub.follow(source, place, turn)) as pages:
        async for told in pages:
            if told.entries:
                yield told.text
            may_be_over = may_be_over or any(entry.kind in FLOW_ENDINGS for entry in told.entries)
            if told.is_live and may_be_over:  # unless it was reopened
                last, may_be_over = await service.backend.describe_flow(flow.flow_id) or last, False
                if last.public_flow_state in _FLOW_ENDED:
                    break
    yield Item("end", _state(last))


def _state(flow: c.FlowSnapshot) -> dict[str, object]:
    return {
        "flow_id": flow.flow_id,
        "public_flow_state": flow.public_flow_state,
        "node_count": flow.node_count,
        "ended_counts": flow.ended_counts,
    }


async def log_events(request: Request) -> Response:
    """New events, or those after a position, of a lane, a namespace, a kind, or all."""
    service = Service.of(request)
    token = service.caller(request, Scope.READ)
    given = query_of(_READ, request, leave_out=("after",))
    args = narrowed(_READ, token, given)
    place = last_seen(request) or args.cursor
    if place is not None:
        await service.backend.read_events(_of_one_log(replace(args, cursor=place, limit=1)))
    source = LogSource(service.backend, replace(args, cursor=None, limit=1))
    return stream(request, token, _of_log(service, source, place, service.turn(request, token)))


def _of_one_log(args: c.ReadEventsArgs) -> c.ReadEventsArgs:
    """Check the form of a cursor without reading every log."""
    if args.execution_id or args.flow_id or args.partition:
        return args
    return replace(args, partition=Partition(PartitionFamily.FLOW, 0))


async def _of_log(service: Service, source: LogSource, place: str | None, turn: Turn) -> Items:
    async with aclosing(service.log_hub.follow(source, place, turn)) as pages:
        is_told = place is not None
        if is_told:
            yield _ready(place)
        async for told in pages:
            if not is_told:
                yield _ready(told.place)
            is_told = True
            if told.entries:
                yield told.text


def _ready(place: str | None) -> Item:
    """From here on no event is missed, even if the connection is lost."""
    return Item("ready", {}, place or "")


ROUTES: Final = [
    Route(f"{PREFIX}/executions/{{execution_id}}/events", execution_events),
    Route(f"{PREFIX}/flows/{{flow_id}}/events", flow_events),
    Route(f"{PREFIX}/events/stream", log_events),
]
