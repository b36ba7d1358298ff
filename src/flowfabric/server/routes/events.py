"""What happens, as streams of events: to one execution, to the members of a flow, in a lane, in a namespace."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from flowfabric.backends.http.operations import BY_PORT, PREFIX, Scope
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, FlowId
from flowfabric.core.partition import flow_partition
from flowfabric.errors import ExecutionNotFound, NotFound
from flowfabric.server.access import narrowed
from flowfabric.server.decoding import query_of
from flowfabric.server.event_sources import ExecutionEvents, FlowEvents, LogEvents
from flowfabric.server.items import Item
from flowfabric.server.service import Service
from flowfabric.server.sse import Items, last_seen, stream

_READ: Final = BY_PORT["read_events"]


async def execution_events(request: Request) -> Response:
    """The events of one execution, until it has ended."""
    service = Service.of(request)
    token = service.caller(request, Scope.READ)
    execution_id = ExecutionId(request.path_params["execution_id"])
    if await service.store(token).get_execution_state(execution_id) is None:
        raise ExecutionNotFound(f"{execution_id} is not there")
    place = last_seen(request)
    if place is not None:  # refused here, where a status can say so
        await service.backend.history(execution_id, cursor=place, limit=1)
    return stream(request, _of_execution(service, execution_id, place))


async def _of_execution(service: Service, execution_id: ExecutionId, place: str | None) -> Items:
    def source() -> ExecutionEvents:
        return ExecutionEvents(service.backend, execution_id)

    async with aclosing(service.feeds.follow(execution_id, source, place)) as texts:
        async for text in texts:
            yield text
    state = await service.backend.get_execution_state(execution_id)
    yield Item("end", {"execution_id": execution_id, "public_state": state})


async def flow_events(request: Request) -> Response:
    """How a flow stands, the events of its members, and how it ended."""
    service = Service.of(request)
    token = service.caller(request, Scope.READ)
    flow_id = FlowId(request.path_params["flow_id"])
    flow = await service.store(token).describe_flow(flow_id)
    if flow is None:
        raise NotFound(f"{flow_id} is not there", code="flow_not_found")
    place = last_seen(request)
    if place is not None:
        partition = flow_partition(flow_id, service.backend.partitions)
        args = c.ReadEventsArgs(flow_id=flow_id, partition=partition, cursor=place, limit=1)
        await service.backend.read_events(args)
    return stream(request, _of_flow(service, flow, place))


async def _of_flow(service: Service, flow: c.FlowSnapshot, place: str | None) -> Items:
    def source() -> FlowEvents:
        return FlowEvents(service.backend, flow.flow_id)

    yield Item("state", _state(flow))
    async with aclosing(service.feeds.follow(flow.flow_id, source, place)) as texts:
        async for text in texts:
            yield text
    yield Item("end", _state(await service.backend.describe_flow(flow.flow_id) or flow))


def _state(flow: c.FlowSnapshot) -> dict[str, object]:
    return {
        "flow_id": flow.flow_id,
        "public_flow_state": flow.public_flow_state,
        "node_count": flow.node_count,
        "ended_counts": flow.ended_counts,
    }


async def log_events(request: Request) -> Response:
    """What happens from now on, or behind a place, to executions of a lane, a namespace, a kind, or to all."""
    service = Service.of(request)
    token = service.caller(request, Scope.READ)
    given = query_of(_READ, request, leave_out=("after",))
    args = narrowed(_READ, token, given)
    place = last_seen(request) or args.cursor
    if place is not None:
        await service.backend.read_events(replace(args, cursor=place, limit=1))
    return stream(request, _of_log(service, replace(args, cursor=None, limit=1), place))


async def _of_log(service: Service, args: c.ReadEventsArgs, place: str | None) -> Items:
    source = LogEvents(service.backend, args)
    if place is None:
        place = (await source.read(None)).place
    yield Item("ready", {}, place or "")  # from here on nothing is missed, whenever the connection is lost
    async with aclosing(service.feeds.follow(args, lambda: source, place)) as texts:
        async for text in texts:
            yield text


ROUTES: Final = [
    Route(f"{PREFIX}/executions/{{execution_id}}/events", execution_events),
    Route(f"{PREFIX}/flows/{{flow_id}}/events", flow_events),
    Route(f"{PREFIX}/events/stream", log_events),
]
