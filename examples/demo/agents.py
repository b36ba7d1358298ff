"""The agents: they plan, search and write word by word, pay for each word, and ask a person before they publish."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from flowfabric import Context, Fail, Worker

LANE, LETTERS = "agents", "letters"
WORDS = ("tides", "rise", "and", "fall", "while", "the", "moon", "pulls", "water", "around", "a", "turning", "earth")

worker = Worker([LANE, LETTERS], concurrency=32)


class Pace:
    """How many times as fast as usual the agents speak."""

    speed = 1.0


@dataclass
class Decision:
    approved: bool
    note: str = ""


async def speak(ctx: Context, words: int, pause: float) -> str:
    """What a model says: each word is a frame, and costs a token."""
    said = []
    for at in range(words):
        word = WORDS[(at * 7 + words) % len(WORDS)]
        await ctx.use(tokens=1)
        await ctx.emit(f"{word} ", type="token")
        said.append(word)
        await asyncio.sleep(pause / Pace.speed)
    return " ".join(said)


@worker.task(lane=LANE)
async def plan(ctx: Context, topic: str) -> list[str]:
    await speak(ctx, 20, 0.03)
    return [f"{topic}, part {number}" for number in range(1, 6)]


@worker.task(lane=LANE, retry=3)
async def search(ctx: Context, number: int, questions: list[str]) -> str:
    found = await speak(ctx, 60 + 20 * number, 0.05)
    return f"{questions[number]}: {found}"


@worker.task(lane=LANE)
async def write(ctx: Context, findings: list[str]) -> str:
    await speak(ctx, 150, 0.04)
    return f"A report of {len(findings)} findings."


@worker.task(lane=LANE)
async def review(ctx: Context, report: str) -> bool:
    """Wait for a person. No worker is held meanwhile."""
    answer = await ctx.wait_for_signal("approval", type=Decision, timeout=24 * 3600)
    return answer.payload.approved


@worker.task(lane=LANE)
async def publish(report: str, approved: bool) -> str:
    return f"Published: {report}" if approved else f"Dropped: {report}"


@worker.task(lane=LETTERS, retry=1)
async def send_letter(number: int) -> str:
    """What else goes on: small work, some of which fails."""
    await asyncio.sleep(random.uniform(0.05, 0.4))
    if number % 23 == 22:
        raise Fail(f"letter {number} has no address")
    return f"letter {number} is sent"
