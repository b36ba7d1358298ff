"""Two drafts: one is approved by two of three people, the other by nobody in time: `python -m examples.approval`."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from rich.console import Console

from examples.approval import people
from examples.approval.agent import Outcome, notes, publish, worker
from flowfabric import Engine, Fabric, Handle

AT_MOST_S = 60

console = Console(highlight=False)


async def approved(fabric: Fabric, outbox: str) -> None:
    console.print("[bold]A draft that two people like[/]")
    handle = await fabric.submit(publish, "tides", outbox)
    await people.suspended(handle)
    console.print("  the agent waits, and no worker with it; ada and linus approve, ada twice")
    await people.approve(fabric, outbox, ["ada", "ada", "linus"])
    await tell(handle, outbox)


async def escalated(fabric: Fabric, outbox: str) -> None:
    console.print("[bold]A draft that nobody answers in time[/]")
    handle = await fabric.submit(publish, "currents", outbox, deadline=1)
    await people.suspended(handle)
    await people.approve(fabric, outbox, ["grace"])
    console.print("  only grace approves; the deadline passes, and the boss is asked")
    await people.suspended(handle, times=2)
    await people.decide(fabric, outbox, publish=False)
    await tell(handle, outbox)


async def tell(handle: Handle[Outcome], outbox: str) -> None:
    outcome = await handle.result()
    done = ", ".join(f"{each['kind']} to {each['to']}" if "to" in each else each["kind"] for each in notes(outbox))
    console.print(f"  done, each once: {done}")
    console.print(f"  [green]{outcome.state}[/], decided by {' and '.join(outcome.decided_by)}")


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="flowfabric-approval-") as directory:
        async with (
            asyncio.timeout(AT_MOST_S),
            Fabric.connect("embedded://") as fabric,
            Engine(fabric.backend),
            worker.working(fabric.backend),
        ):
            await approved(fabric, str(Path(directory, "approved.jsonl")))
            await escalated(fabric, str(Path(directory, "escalated.jsonl")))


if __name__ == "__main__":
    asyncio.run(main())
