"""Three people watch one answer: from its start, from later on, and over a lost connection. All see the same text."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from examples.llm_stream.author import answer, text_of
from examples.llm_stream.stage import Stage, Text, console
from flowfabric import Fabric, Handle

QUESTION = "What do tides do?"
LATE, LOST = 500, 700  # tokens


async def play(stage: Stage) -> None:
    console.print("[bold]Three people watch one answer[/]")
    author = await stage.enter_author()
    handle = await stage.fabric.submit(answer, QUESTION)
    half_way = asyncio.Event()
    texts = await asyncio.gather(
        from_the_start(handle, half_way), from_later_on(handle, half_way), over_a_lost_connection(stage, handle)
    )
    assert set(texts) == {text_of(QUESTION)}, "they see different texts"
    assert await handle == len(texts[0]), "and it is what was said"
    console.print(f"  [green]all three saw the same {len(texts[0])} characters[/]: {texts[0][:40]}...")
    await stage.leave(author)


async def from_the_start(handle: Handle[int], half_way: asyncio.Event) -> str:
    text = Text()
    async for item in handle.stream():
        text.add(item)
        if text.tokens == LATE:
            half_way.set()
    return text.shown


async def from_later_on(handle: Handle[int], half_way: asyncio.Event) -> str:
    await half_way.wait()
    console.print(f"  one joins after {LATE} tokens and is shown what was said before")
    text = Text()
    async for item in handle.stream():
        text.add(item)
    return text.shown


async def over_a_lost_connection(stage: Stage, handle: Handle[int]) -> str:
    """What is kept is the cursor of the last token, as a browser keeps it."""
    text = Text()
    async with Fabric.connect(stage.url) as fabric, aclosing(fabric.handle(handle.id).stream()) as items:
        while text.tokens < LOST:
            text.add(await anext(items))
    console.print(f"  one loses the connection after {LOST} tokens, and comes back with the cursor {text.cursor}")
    async for item in handle.stream(after=text.cursor):
        text.add(item)
    return text.shown
