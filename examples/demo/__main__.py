"""Everything in one process, seen in the dashboard: `python -m examples.demo`; approve in the browser to finish it.

Where nobody sits at the keyboard, or with --unattended, it approves by itself over the API and ends.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import AsyncExitStack, suppress

import httpx

from examples.demo.agents import LANE, Pace, plan, publish, review, search, send_letter, worker, write
from flowfabric import Engine, Fabric, Flow
from flowfabric.cli.dev.serving import serve
from flowfabric.cli.show.output import Output
from flowfabric.core.codec import to_json
from flowfabric.core.ids import SignalId

AT_MOST_S = 120  # unattended
TOKENS = 1_000
SEARCHES = 5
LETTERS_A_SECOND = 6


def draw(flow: Flow, topic: str) -> None:
    questions = flow.add(plan, topic)
    findings = flow.map(search, range(SEARCHES), questions)
    report = flow.add(write, flow.all(findings))
    approved = flow.add(review, report)
    flow.add(publish, report, approved)


async def main(port: int | None, *, attended: bool) -> None:
    out = Output()
    async with AsyncExitStack() as stack:
        if not attended:
            await stack.enter_async_context(asyncio.timeout(AT_MOST_S))
        fabric = await stack.enter_async_context(Fabric.connect("embedded://"))
        await stack.enter_async_context(Engine(fabric.backend))
        await stack.enter_async_context(worker.working(fabric.backend))
        url = await serve(stack, fabric.backend, port, out)
        assert url is not None, "the demo needs the server's packages"
        await play(fabric, url, out, attended=attended)


async def play(fabric: Fabric, url: str, out: Output, *, attended: bool) -> None:
    await fabric.budgets.create({"tokens": TOKENS}, soft={"tokens": TOKENS // 2}, lane=LANE)
    letters = asyncio.create_task(send_letters(fabric))
    async with fabric.flow("research") as flow:
        draw(flow, "tides")
    out.line(f"\n  {url}/#/flows/{flow.handle.id}   the flow, as it runs")
    out.line(f"  {url}/#/inbox   where its approval will wait for you")
    out.line(f"  {url}/#/budgets   what its tokens cost\n")
    if not attended:
        await approve(url, out)
    out.line(str(await flow.handle.result()))
    if attended:
        out.line("The dashboard stays until Ctrl-C.")
        await letters
    letters.cancel()


async def send_letters(fabric: Fabric) -> None:
    number = 0
    while True:
        await fabric.submit(send_letter, number)
        number += 1
        await asyncio.sleep(1 / LETTERS_A_SECOND)


async def approve(url: str, out: Output) -> None:
    """What a click on Approve does: look into the inbox until somebody is waited for, and answer."""
    async with httpx.AsyncClient(base_url=f"{url}/v1") as api:
        while not (entries := (await api.get("/inbox")).json()["entries"]):  # noqa: ASYNC110 - the API is asked
            await asyncio.sleep(0.2)
        execution_id = entries[0]["execution"]["execution_id"]
        out.line(f"{execution_id} waits for an approval, which it is given over the API")
        answer = {
            "signal_id": SignalId.new(),
            "signal_name": "approval",
            "payload": to_json({"approved": True}),
            "payload_encoding": "json",
        }
        response = await api.post(f"/executions/{execution_id}/signals", content=to_json(answer))
        response.raise_for_status()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, help="where the dashboard is; by default 9090, or any free port")
    parser.add_argument("--unattended", action="store_true", help="approve by itself, and end")
    parser.add_argument("--speed", type=float, default=1.0, help="how many times as fast the agents speak")
    given = parser.parse_args()
    Pace.speed = given.speed
    with suppress(KeyboardInterrupt):
        asyncio.run(main(given.port, attended=sys.stdin.isatty() and not given.unattended))
