"""The output of an execution as an event stream, over all its attempts. All readers of an execution share one read."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from flowfabric.backends.http.operations import PREFIX, Scope
from flowfabric.client import streaming
from flowfabric.client.streaming import Attempts, Place
from flowfabric.core.codec import from_plain
from flowfabric.core.ids import ExecutionId
from flowfabric.server.feeds.items import Item
from flowfabric.server.feeds.sse import Items, last_seen, stream
from flowfabric.server.service import Service


class _Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: str | None = None
    attempts: str = "latest"
    live: bool = True


async def execution_stream(request: Request) -> Response:
    """The output from the start or after a position, until the execution ends."""
    service = Service.of(request)
    token = service.caller(request, Scope.READ)
    execution_id = ExecutionId(request.path_params["execution_id"])
    query = from_plain(_Query, dict(request.query_params), texts=True)
    await streaming.latest_attempt(service.store(token), execution_id)
    after = last_seen(request)
    if after is not None:
        Place.parse(after)
    attempts = cast("Attempts", streaming.checked_attempts(query.attempts))
    return stream(request, token, _frames(service, execution_id, after, attempts, live=query.live))


async def _frames(
    service: Service, execution_id: ExecutionId, after: str | None, attempts: Attempts, *, live: bool
) -> Items:
    place, name = after or "", str.__str__(execution_id)
    following = streaming.stream(service.backend, execution_id, after=after, attempts=attempts, live=live)
    async with aclosing(following) as items:
        async for item in items:
            place = item.cursor
            yield service.encoded_frames.of(name, item)
    state = await service.backend.get_execution_state(execution_id)
    yield Item("end", {"execution_id": execution_id, "public_state": state}, place)


ROUTES: Final = [Route(f"{PREFIX}/executions/{{execution_id}}/stream", execution_stream)]
