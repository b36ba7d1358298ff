"""The least that the same framework can do: read a JSON body, answer a few bytes of JSON."""

from __future__ import annotations

import asyncio

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from flowfabric.worker.loop import event_loop


async def answer(request: Request) -> Response:
    given = msgspec.json.decode(await request.body())
    return Response(msgspec.json.encode({"members": len(given)}), 201, media_type="application/json")


async def main() -> None:
    app = Starlette(routes=[Route("/", answer, methods=["POST"])])
    options = {"log_config": None, "access_log": False, "server_header": False, "timeout_keep_alive": 75}
    config = uvicorn.Config(app, port=0, **options)  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.01)
    print(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", flush=True)
    await serving


if __name__ == "__main__":
    event_loop.run(main())
