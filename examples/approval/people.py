"""The people: each reads the mail and answers by its link, as a browser or another program would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from examples.approval.agent import notes
from flowfabric import Fabric, Handle


async def suspended(handle: Handle[Any], times: int = 1) -> None:
    """Until the execution waits for the first or a later time: told by its events, so nobody asks again and again."""
    async for event in handle.events():
        times -= event.event == "suspended"
        if times == 0:
            return


async def approve(fabric: Fabric, outbox: str, people: Sequence[str]) -> None:
    """These people say yes, one after the other. One who says it twice is still one."""
    links = {each["to"]: each["link"] for each in notes(outbox) if each["kind"] == "mail"}
    for person in people:
        await fabric.signal(links[person], source=person)


async def decide(fabric: Fabric, outbox: str, *, publish: bool) -> None:
    """The boss says what happens."""
    (letter,) = (each for each in notes(outbox) if each.get("to") == "boss")
    await fabric.signal(letter["link"], {"publish": publish, "reason": "it is only about tides"}, source="boss")
