"""The application: routes, middleware, startup and shutdown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from flowfabric.errors.packages import explained

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.cors import CORSMiddleware
except ModuleNotFoundError as error:
    raise explained(error) from None

from flowfabric.backends.ports import EngineBackend
from flowfabric.engine import Engine
from flowfabric.errors import FlowFabricError
from flowfabric.server.http import problems
from flowfabric.server.http.middleware import Guard, Measured, Traced
from flowfabric.server.metrics.registry import Requests
from flowfabric.server.routes import (
    approval,
    dashboard,
    events,
    health,
    insight,
    logs,
    metrics,
    overview,
    ports,
    questions,
    streams,
    submitting,
    work,
)
from flowfabric.server.service import Service
from flowfabric.server.settings import ServerSettings

# These paths come before those of the ports, which some of them overlap; the most called ones come first.
_TOPICS: Final = (
    *(submitting, work, events, streams, logs, health, metrics),
    *(approval, overview, insight, questions, dashboard),
)


def create_app(
    backend: EngineBackend, settings: ServerSettings | None = None, *, engine: Engine | None = None
) -> Starlette:
    """An application over an open store and, for metrics, an engine; the caller closes both."""
    service = Service(backend, settings or ServerSettings(), engine)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        service.stopping.set()
        await service.gatherer.close()

    app = Starlette(
        routes=[route for topic in _TOPICS for route in topic.ROUTES] + ports.routes(),
        middleware=_middleware(service.settings, service.requests),
        exception_handlers={
            FlowFabricError: problems.on_flowfabric_error,
            HTTPException: problems.on_http_error,
        },
        lifespan=lifespan,
    )
    # A redirect would name the host that the caller sent, together with the token of a link.
    app.router.redirect_slashes = False
    app.state.service = service
    app.state.looks = overview.Looks(backend)
    return app


def _middleware(settings: ServerSettings, requests: Requests) -> list[Middleware]:
    found = [
        Middleware(Guard, query_parameters=settings.query_parameters),
        Middleware(Measured, requests=requests),
        Middleware(Traced),
    ]
    if settings.origins:
        found.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(settings.origins),
                allow_methods=["GET", "POST", "PUT"],
                allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID"],
            )
        )
    return found
