"""The agent: it drafts, asks three people, and publishes when two of them approve; past the deadline it asks the boss.

Whatever it does to the world is a step, so it is done once, however often the handler runs again from its top.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from flowfabric import ByName, Context, Count, CountKind, SignalTimeout, Worker

PEOPLE = ("ada", "grace", "linus")
NEEDED = 2

worker = Worker(["approvals"])


@dataclass
class Draft:
    topic: str
    text: str


@dataclass
class Decision:
    publish: bool
    reason: str = ""


@dataclass
class Outcome:
    """What became of the draft, and who decided it."""

    state: Literal["published", "dropped"]
    decided_by: list[str]


@worker.task(retry=5)
async def publish(ctx: Context, topic: str, outbox: str, deadline: float = 3600) -> Outcome:
    draft = await ctx.step("draft", write, outbox, topic)
    desks = [await ctx.waitpoint(person) for person in PEOPLE]
    for desk in desks:
        await ctx.step("ask", mail, outbox, desk.key, draft.text, desk.link("approve"))
    two_of_three = Count(NEEDED, CountKind.DISTINCT_WAITPOINTS, PEOPLE, ByName("approve"))
    try:
        votes = await ctx.wait_for(two_of_three, timeout=deadline, reason="waiting_for_approval")
    except SignalTimeout:
        return await escalate(ctx, outbox, draft)
    await ctx.step("publish", post, outbox, draft.text)
    return Outcome("published", sorted(vote.waitpoint_key for vote in votes))


async def escalate(ctx: Context, outbox: str, draft: Draft) -> Outcome:
    desk = await ctx.waitpoint("boss")
    await ctx.step("escalate", mail, outbox, desk.key, draft.text, desk.link("decision"))
    answer = await ctx.wait_for_signal("decision", type=Decision, at=desk)
    if not answer.payload.publish:
        return Outcome("dropped", ["boss"])
    await ctx.step("publish", post, outbox, draft.text)
    return Outcome("published", ["boss"])


# What the agent does to the world: here, lines of a file.


def write(outbox: str, topic: str) -> Draft:
    note(outbox, "draft", topic=topic)
    return Draft(topic, f"{topic.capitalize()} come and go, twice a day.")


def mail(outbox: str, to: str, text: str, link: str) -> None:
    note(outbox, "mail", to=to, text=text, link=link)


def post(outbox: str, text: str) -> None:
    note(outbox, "post", text=text)


def note(outbox: str, kind: str, **facts: Any) -> None:
    with Path(outbox).open("a") as file:
        file.write(json.dumps({"kind": kind, **facts}) + "\n")


def notes(outbox: str) -> list[dict[str, str]]:
    """Everything that was done so far."""
    path = Path(outbox)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
