"""The agent: it plans, searches, drafts a letter, asks for an approval, and sends it. All of it streams to the browser.

What it says is text of its result. What it pays for or does to the world is a step, so it happens once, however often
the handler runs again from its top; what a step says stays on the page.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from flowfabric import Context, FixedBackoff, RetryPolicy, Worker

LANE = "agents"
MOST_TOKENS = 50  # that one answer of the model may have
WORDS = ("tides", "rise", "and", "fall", "while", "the", "moon", "looks", "on", "slowly")

worker = Worker([LANE])


@dataclass
class Decision:
    approve: bool


@dataclass
class Answer:
    """What the page shows at the end, and whether the letter was sent."""

    text: str
    sent: bool


@worker.task(lane=LANE, retry=RetryPolicy(max_retries=5, backoff=FixedBackoff(delay_ms=100)))
async def answer(ctx: Context, question: str, ledger: str) -> Answer:
    text = await say(ctx, f"You asked: {question}\n\nPlan: ")
    text += await ctx.step("plan", think, ctx, ledger, f"a plan for {question}")
    found = await ctx.step("search", search, ledger, question)
    text += await say(ctx, f"\n\nI found {found}.\n\nDraft: ")
    text += await ctx.step("draft", think, ctx, ledger, f"a letter about {question}, with {found}")
    desk = await ctx.waitpoint("approval")
    await ctx.emit({"link": desk.link("decision")}, type="approval")
    decision = await ctx.wait_for_signal("decision", type=Decision, at=desk)
    if not decision.payload.approve:
        text += await say(ctx, "\n\nNot sent.")
        return Answer(text, sent=False)
    number = await ctx.step("send", send, ledger)
    text += await say(ctx, f"\n\nSent as letter {number}.")
    return Answer(text, sent=True)


async def say(ctx: Context, text: str) -> str:
    await ctx.emit(text, type="token")
    return text


# The steps.


async def think(ctx: Context, ledger: str, prompt: str) -> str:
    """Ask the model, and pass each token on. The tokens are reserved before they are spent."""
    note(ledger, "model")
    text = ""
    async with ctx.reserve(tokens=MOST_TOKENS) as held:
        async for token in model(prompt):
            text += await say(ctx, token)
        held.used(tokens=len(text.split()))
    return text


def search(ledger: str, question: str) -> str:
    """A tool that is not there at first: the attempt fails, and the next one goes on here."""
    if "no route" not in notes(ledger):
        note(ledger, "no route")
        raise ConnectionError("no route to the library")
    note(ledger, "search")
    return f"{len(question)} books"


def send(ledger: str) -> int:
    note(ledger, "send")
    return notes(ledger).count("send")


async def model(prompt: str) -> AsyncIterator[str]:
    """Says the same to the same prompt."""
    for at in range(12):
        yield f"{WORDS[(at * 7 + len(prompt)) % len(WORDS)]} "


# What was paid for and done: lines of a file.


def note(ledger: str, deed: str) -> None:
    with Path(ledger).open("a") as file:
        file.write(json.dumps(deed) + "\n")


def notes(ledger: str) -> list[str]:
    path = Path(ledger)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
