"""The author: a task that passes on each token of a fake model, and a process that works on it.

python -m examples.llm_stream.author URL    works until it is stopped, or its parent is gone
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator

from flowfabric import Context, FixedBackoff, RetryPolicy, Worker

TOKENS = 2_000
WORDS = ("tides", "rise", "and", "fall", "while", "the", "moon", "looks", "on", "slowly")

# The lease is short, so that the death of the process is noticed soon.
worker = Worker(["answers"], lease_ttl_ms=3_000, grace=1)


@worker.task(retry=RetryPolicy(max_retries=3, backoff=FixedBackoff(delay_ms=0)))
async def answer(ctx: Context, question: str, tokens: int = TOKENS) -> int:
    length = 0
    async for token in model(question, tokens):
        await ctx.emit(token, type="token")
        length += len(token)
    return length


async def model(question: str, tokens: int) -> AsyncIterator[str]:
    """Says the same to the same question, a few tokens at a time."""
    for at in range(tokens):
        if at % 10 == 0:
            await asyncio.sleep(0.005)
        yield token_of(question, at)


def token_of(question: str, at: int) -> str:
    return f"{WORDS[(at * 7 + len(question)) % len(WORDS)]}-{at} "


def text_of(question: str, tokens: int = TOKENS) -> str:
    """The whole answer, to compare with."""
    return "".join(token_of(question, at) for at in range(tokens))


async def work(url: str) -> None:
    leaving = asyncio.create_task(leave_with(os.getppid()))
    await worker.run(url)
    leaving.cancel()


async def leave_with(parent: int) -> None:
    """Nobody is left behind when the example itself is killed."""
    while os.getppid() == parent:  # noqa: ASYNC110 - no event tells it
        await asyncio.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
