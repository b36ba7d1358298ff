"""Liveness and readiness of the server."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from flowfabric import __version__
from flowfabric.backends.http.operations import PREFIX
from flowfabric.backends.http.shapes import to_wire
from flowfabric.core.ids import LaneId
from flowfabric.errors import FlowFabricError
from flowfabric.server.reference.openapi import document
from flowfabric.server.service import Service, answer

_READY_S: Final = 2.0


async def healthz(_: Request) -> Response:
    """The process answers."""
    return answer({"status": "alive"})


async def readyz(request: Request) -> Response:
    """The store answers, and the server is not stopping."""
    service = Service.of(request)
    if service.stopping.is_set():
        return answer({"status": "stopping"}, 503)
    try:
        async with asyncio.timeout(_READY_S):
            await service.backend.describe_lane(LaneId("default"))
    except (FlowFabricError, TimeoutError) as error:
        return answer({"status": "unavailable", "reason": str(error) or "the store does not answer"}, 503)
    return answer({"status": "ready"})


async def store(request: Request) -> Response:
    """The partition counts, which a client needs before it creates ids."""
    service = Service.of(request)
    service.caller(request)
    return answer({"version": __version__, "partitions": service.backend.partitions})


async def openapi(request: Request) -> Response:
    """The document that describes all addresses."""
    service = Service.of(request)
    if service.document is None:
        service.document = to_wire(document(request.app.routes))
    return Response(service.document, media_type="application/json")


ROUTES: Final = [
    Route("/healthz", healthz),
    Route("/readyz", readyz),
    Route("/openapi.json", openapi),
    Route(f"{PREFIX}/store", store),
]
