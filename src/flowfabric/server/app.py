"""The application: routes, what stands around them, and how it starts and stops."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from flowfabric.backends.ports import EngineBackend
from flowfabric.errors import FlowFabricError
from flowfabric.server import problems
from flowfabric.server.middleware import Guard
from flowfabric.server.routes import dashboard, events, health, looking, overview, ports, streams, submitting, work
from flowfabric.server.service import Service
from flowfabric.server.settings import ServerSettings


def create_app(backend: EngineBackend, settings: ServerSettings | None = None) -> Starlette:
    """An application over an open store, which stays its owner's to close."""
    service = Service(backend, settings or ServerSettings())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        service.stopping.set()
        await service.gatherer.close()

    app = Starlette(
        routes=[
            *health.ROUTES,
            *submitting.ROUTES,
            *work.ROUTES,
            *events.ROUTES,
            *streams.ROUTES,
            *overview.ROUTES,
            *looking.ROUTES,
            *dashboard.ROUTES,
            *ports.routes(),
        ],
        middleware=_middleware(service.settings),
        exception_handlers={
            FlowFabricError: problems.on_flowfabric_error,
            HTTPException: problems.on_http_error,
            Exception: problems.on_bug,
        },
        lifespan=lifespan,
    )
    app.state.service = service
    app.state.looks = overview.Looks(backend)
    return app


def _middleware(settings: ServerSettings) -> list[Middleware]:
    found = [Middleware(Guard)]
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
