"""The web app: a page, a question, its output as server-sent events, and the answer to the agent's question."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_hex
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from examples.agent_app.agent import LANE, answer
from flowfabric import Fabric, Handle

PAGE = Path(__file__).with_name("page.html")
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def create_app(fabric: Fabric, ledgers: Path, lane: str = LANE) -> Starlette:
    """`ledgers`: a directory where each question gets a file of what was done for it."""

    async def page(_: Request) -> Response:
        return FileResponse(PAGE)

    async def ask(request: Request) -> Response:
        question = str((await request.json())["question"])
        ledger = ledgers / f"{token_hex(8)}.jsonl"
        handle = await fabric.submit(answer.with_options(lane=lane), question, str(ledger))
        return JSONResponse({"id": str(handle.id)})

    async def events(request: Request) -> Response:
        """A browser that reconnects sends the id of the last event that it saw."""
        handle = fabric.handle(request.path_params["id"])
        after = request.headers.get("last-event-id") or None
        return StreamingResponse(_events(handle, after), media_type="text/event-stream", headers=HEADERS)

    async def decide(request: Request) -> Response:
        said = await request.json()
        await fabric.signal(said["link"], {"approve": bool(said["approve"])}, source="page")
        return Response(status_code=204)

    return Starlette(
        routes=[
            Route("/", page),
            Route("/ask", ask, methods=["POST"]),
            Route("/runs/{id}/events", events),
            Route("/decide", decide, methods=["POST"]),
        ]
    )


async def _events(handle: Handle[Any], after: str | None) -> AsyncIterator[str]:
    yield "retry: 200\n\n"
    async for item in handle.stream(after=after):
        yield _event(item.type, item.value, item.cursor)
    yield _event("end", await handle.status())


def _event(kind: str, value: object, cursor: str = "") -> str:
    head = f"id: {cursor}\n" if cursor else ""
    return f"{head}event: {kind}\ndata: {json.dumps(value)}\n\n"
