"""The flow is submitted as a whole, and drawn while it runs: `python -m examples.research_flow [topic]`."""

from __future__ import annotations

import asyncio
import sys

from examples.research_flow.agents import ENOUGH, SEARCHES, apologise, judge, plan, search, worker, write
from flowfabric import Engine, Fabric, Flow
from flowfabric.cli.show.flow_tree import watch
from flowfabric.cli.show.output import Output

AT_MOST_S = 60


def draw(flow: Flow, topic: str) -> None:
    planned = flow.add(plan, topic)
    found = flow.map(search, range(SEARCHES), planned)
    verdict = flow.add(judge, flow.quorum(ENOUGH, found), planned)  # the searches that are left are cancelled
    flow.add(write, verdict)
    flow.add(apologise, topic, after=verdict.failed)


async def main(topic: str) -> None:
    async with (
        asyncio.timeout(AT_MOST_S),
        Fabric.connect("embedded://") as fabric,
        Engine(fabric.backend),
        worker.working(fabric.backend),
    ):
        async with fabric.flow("research") as flow:
            draw(flow, topic)
        out = Output()
        await watch(flow.handle, out)
        out.line(await flow.handle.result())


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "tides"))
