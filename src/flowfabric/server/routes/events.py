"""What happens to executions, as a stream of events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from flowfabric.backends.http.operations import PREFIX, Scope
from flowfabric.backends.ports import EngineBackend
from flowfabric.core.ids import ExecutionId
from flowfabric.server.access import check_execution
from flowfabric.server.service import Service
from flowfabric.server.sse import Item, last_seen, stream


async def execution_events(request: Request) -> Response:
    """The events of one execution, until it has ended."""
    service = Service.of(request)
    token = service.caller(request, Scope.READ)
    execution_id = ExecutionId(request.path_params["execution_id"])
    await check_execution(token, execution_id, service.backend)
    return stream(request, _events(service.backend, execution_id, last_seen(request)))


async def _events(backend: EngineBackend, execution_id: ExecutionId, cursor: str | None) -> AsyncIterator[Item]:
    async with aclosing(backend.tail_events(execution_id, cursor=cursor)) as events:  # type: ignore[type-var]
        async for event in events:
            yield Item("event", event, event.cursor)
    yield Item("end", {"execution_id": execution_id})


ROUTES: Final = [Route(f"{PREFIX}/executions/{{execution_id}}/events", execution_events)]
