"""The store, an engine, a worker and the web app in one process: `python -m examples.agent_app`.

With --unattended it asks and approves by itself, and ends.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path

import httpx

from examples.agent_app.agent import LANE, worker
from examples.agent_app.serving import serving
from examples.agent_app.visitor import Visitor
from examples.agent_app.web import create_app
from flowfabric import Engine, Fabric

TOKENS = 10_000  # the budget of the lane
AT_MOST_S = 60  # unattended


async def main(port: int, *, attended: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="flowfabric-agent-") as directory:
        async with (
            Fabric.connect("embedded://") as fabric,
            Engine(fabric.backend),
            worker.working(fabric.backend),
            serving(create_app(fabric, Path(directory)), port) as url,
        ):
            budget = await fabric.budgets.create({"tokens": TOKENS}, lane=LANE)
            print(url, flush=True)
            if attended:
                await asyncio.Event().wait()
            async with asyncio.timeout(AT_MOST_S), httpx.AsyncClient(base_url=url) as http:
                visitor = Visitor(http)
                await visitor.watch(await visitor.ask("What do tides do?"))
            print(visitor.text)
            print(f"{visitor.state}, for {(await fabric.budgets.status(budget)).usage['tokens']} tokens")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--unattended", action="store_true", help="ask and approve, then end")
    options = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(main(options.port, attended=not options.unattended))
