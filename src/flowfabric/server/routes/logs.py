"""The log records of an execution as an event stream, over all its attempts."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from flowfabric.backends.http.operations import PREFIX, Scope
from flowfabric.client import logs
from flowfabric.core import contracts as c
from flowfabric.core.codec import from_plain
from flowfabric.core.ids import ExecutionId
from flowfabric.server.feeds.items import Item
from flowfabric.server.feeds.sse import Items, last_seen, stream
from flowfabric.server.service import Service


class _Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: str | None = None
    attempt: int | None = None
    level: str = "debug"


async def execution_logs(request: Request) -> Response:
    """The records from the start or after a position, until the execution ends."""
    service = Service.of(request)
    token = service.caller(request, Scope.READ)
    execution_id = ExecutionId(request.path_params["execution_id"])
    query = from_plain(_Query, dict(request.query_params), texts=True)
    args = logs.wanted(execution_id, after=last_seen(request), attempt=query.attempt, level=query.level)
    store = service.store(token)
    await store.read_logs(msgspec.structs.replace(args, limit=1))  # refused here, where the response still has a status
    return stream(request, token, _records(service, args))


async def _records(service: Service, args: c.ReadLogsArgs) -> Items:
    place = args.cursor or ""
    async with aclosing(logs.logs(service.backend, args, follow=True)) as records:
        async for record in records:
            place = record.cursor
            yield Item("record", record, place)
    state = await service.backend.get_execution_state(args.execution_id)
    yield Item("end", {"execution_id": args.execution_id, "public_state": state}, place)


ROUTES: Final = [Route(f"{PREFIX}/executions/{{execution_id}}/logs/stream", execution_logs)]
