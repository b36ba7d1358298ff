"""Random handlers, random failures and kills: every reader ends with what one undisturbed run would have shown.

A handler is a list of acts. A fault hits the n-th point that its passes reach, whichever point that is.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from flowfabric import Context, Handle, RetryPolicy, Snooze, StreamItem, Worker
from flowfabric.core.policy import FixedBackoff
from flowfabric.testing import FabricKit
from tests.server.serving import Served, serving
from tests.soaking import examples

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

RUNS = examples(25, soak=400)
WITHIN_S = 60
MANY_RETRIES = RetryPolicy(max_retries=50, backoff=FixedBackoff(delay_ms=0))

Act = tuple[str, Any]


@dataclass
class Story:
    """A handler, and the points at which it is hit."""

    acts: list[Act]
    faults: dict[int, str]
    points: int = 0
    hits: Counter[str] = field(default_factory=Counter)

    @classmethod
    def random(cls, seed: int) -> Story:
        dice = random.Random(seed)
        acts = [_act(dice, f"{at}") for at in range(dice.randint(2, 7))]
        faults = {dice.randint(1, 40): dice.choice(["fail", "kill", "snooze"]) for _ in range(dice.randint(0, 4))}
        return cls(acts, faults)

    def check(self, words: list[str], reader: str) -> None:
        """Each act's words stand together, and those of each parallel step are in their order."""
        rest = list(words)
        for act, group in _groups(self.acts):
            count = sum(len(line) for line in group)
            here, rest = rest[:count], rest[count:]
            for line in group:
                assert [word for word in here if word in line] == line, (reader, act, words)
        assert not rest, (reader, words)


def _act(dice: random.Random, name: str) -> Act:
    kind = dice.choice(["emit", "emit", "step", "step", "thread", "both", "wait", "caught"])
    count = dice.randint(1, 3)
    return kind, [f"{name}.{kind}.{at}" for at in range(count)]


def _groups(acts: list[Act]) -> list[tuple[Act, list[list[str]]]]:
    """The words of each act; parallel steps have one list each."""
    groups = []
    for act in acts:
        kind, words = act
        if kind == "both":
            groups.append((act, [[f"a{word}" for word in words], [f"b{word}" for word in words]]))
        elif kind != "wait":
            groups.append((act, [[*words, "oh"] if kind == "caught" else words]))
    return groups


class Stage:
    """The worker that tells a story."""

    def __init__(self, kit: FabricKit, story: Story) -> None:
        self.kit = kit
        self.story = story
        self.worker = Worker(concurrency=2)
        self.told = self.worker.task(name="tell", retry=MANY_RETRIES)(self.tell)

    async def tell(self, ctx: Context) -> None:
        for kind, words in self.story.acts:
            await self.point()
            if kind == "emit":
                await self.say(ctx, words)
            elif kind == "step":
                await ctx.step(kind, self.say, ctx, words)
            elif kind == "thread":
                await ctx.step(kind, self.say_in_thread, ctx, words)
            elif kind == "both":
                each = [[f"{mark}{word}" for word in words] for mark in "ab"]
                await asyncio.gather(*(ctx.step(kind, self.say, ctx, part) for part in each))
            elif kind == "caught":
                try:
                    await ctx.step(kind, self.say_and_fail, ctx, words)
                except LookupError:
                    await ctx.emit("oh")
            else:
                await ctx.sleep(60)
        await self.point()

    async def say(self, ctx: Context, words: list[str]) -> None:
        for word in words:
            await ctx.emit(word)
            await self.point()

    def say_in_thread(self, ctx: Context, words: list[str]) -> None:
        for word in words:
            ctx.emit(word)

    async def say_and_fail(self, ctx: Context, words: list[str]) -> None:
        await self.say(ctx, words)
        raise LookupError("on purpose")

    async def point(self) -> None:
        story = self.story
        story.points += 1
        fault = story.faults.get(story.points)
        if fault is None:
            return
        story.hits[fault] += 1
        if fault == "kill":
            await self.kit.kill_worker(self.worker)
        if fault == "snooze":
            raise Snooze(for_=1)
        raise OSError("no route")

    async def run(self, handle: Handle[None]) -> None:
        """Run it to its end: over sleeps, and leases of killed workers."""
        async with asyncio.timeout(WITHIN_S):
            while await handle.status() != "completed":
                await self.kit.run_until_idle(self.worker)
                await self.kit.advance(60)


def words_of(items: list[StreamItem]) -> list[str]:
    """What stands on the screen of a reader."""
    words: list[str] = []
    for item in items:
        words = [] if item.is_reset else [*words, item.value]
    return words


async def read(handle: Handle[None], **options: Any) -> list[StreamItem]:
    async with asyncio.timeout(WITHIN_S):
        return [item async for item in handle.stream(**options)]


async def read_events(served: Served, handle: Handle[None], after: str | None = None) -> list[str]:
    words: list[str] = []
    async with served.listen(f"/v1/executions/{handle.id}/stream", after=after) as listener:
        for sent in await listener.until("end"):
            if sent.kind != "end":
                words = [] if sent.kind == "reset" else [*words, sent.data["value"]]
    return words


async def leave_and_return(handle: Handle[None], dice: random.Random) -> list[StreamItem]:
    """A reader whose connection breaks now and then."""
    seen: list[StreamItem] = []
    while True:
        left = dice.randint(1, 5)
        async for item in handle.stream(after=seen[-1].cursor if seen else None):
            seen.append(item)
            left -= 1
            if not left:
                break
        else:
            return seen


@asynccontextmanager
async def readers(served: Served, handle: Handle[None], seed: int) -> AsyncIterator[dict[str, asyncio.Task[Any]]]:
    tasks: dict[str, asyncio.Task[Any]] = {
        "live": asyncio.create_task(read(handle)),
        "leaves and returns": asyncio.create_task(leave_and_return(handle, random.Random(seed))),
        "events": asyncio.create_task(read_events(served, handle)),
    }
    try:
        yield tasks
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


@pytest.mark.parametrize("seed", range(RUNS))
async def test_every_reader_ends_with_what_an_undisturbed_run_shows(fabric_kit: FabricKit, seed: int) -> None:
    story, dice = Story.random(seed), random.Random(seed)
    stage = Stage(fabric_kit, story)
    handle = await fabric_kit.submit(stage.told)
    async with serving(fabric_kit.backend) as served, readers(served, handle, seed) as reading:
        await stage.run(handle)
        async with asyncio.timeout(WITHIN_S):
            live = await reading["live"]
            story.check(words_of(live), "live")
            story.check(words_of(await reading["leaves and returns"]), "leaves and returns")
            story.check(await reading["events"], "events")
        late = await read(handle)
        story.check(words_of(late), "late")
        story.check(await read_events(served, handle), "late events")
        for items in (live, late):
            for at in sorted(dice.sample(range(len(items)), min(5, len(items)))):
                rest = await read(handle, after=items[at].cursor)
                story.check(words_of(items[: at + 1] + rest), f"resumed after {items[at].cursor}")
