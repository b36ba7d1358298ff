"""`/metrics`: the state of the store, the engine and this server, for Prometheus."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from flowfabric.backends.http.operations import Scope
from flowfabric.server.access.scopes import check_store
from flowfabric.server.metrics import gauges
from flowfabric.server.metrics.registry import CONTENT_TYPE, Family, Sample, text
from flowfabric.server.service import Service


async def metrics(request: Request) -> Response:
    """All metrics."""
    service = Service.of(request)
    check_store(service.caller(request, Scope.READ))
    backend = service.backend
    families = [
        *await gauges.of_lanes(backend),
        *await gauges.of_workers(backend),
        *await gauges.of_budgets(backend),
        *await service.happened.families(),
        *(gauges.of_engine(service.engine) if service.engine is not None else ()),
        *service.requests.families(),
        Family("flowfabric_http_streams", "gauge", "Open streams of events.", [Sample((), len(service.streams))]),
    ]
    return Response(text(families), headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})


ROUTES: Final = [Route("/metrics", metrics)]
