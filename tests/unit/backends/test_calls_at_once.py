"""Many calls at once: in parts, in order, and none is made before its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator

import pytest

from flowfabric.backends.valkey.library.calls import at_once


class Calls:
    """Counts those that were made; they end when they may."""

    def __init__(self) -> None:
        self.made = 0
        self.has_begun, self.may_end = asyncio.Event(), asyncio.Event()

    def of(self, count: int) -> Iterator[Awaitable[int]]:
        for number in range(count):
            self.made += 1
            yield self.call(number)

    async def call(self, number: int) -> int:
        self.has_begun.set()
        await self.may_end.wait()
        if number == 7:
            raise ValueError(number)
        return number


async def test_answers_come_in_the_order_of_the_calls() -> None:
    calls = Calls()
    calls.may_end.set()
    assert await at_once(calls.of(1)) == [0]
    assert await at_once(calls.call(number) for number in range(8, 600)) == list(range(8, 600))


async def test_nothing_is_left_over_when_the_caller_is_cancelled() -> None:
    calls = Calls()
    asking = asyncio.create_task(at_once(calls.of(600)))
    await calls.has_begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert calls.made == 256


async def test_nothing_follows_an_error() -> None:
    calls = Calls()
    calls.may_end.set()
    with pytest.raises(ValueError, match="7"):
        await at_once(calls.of(600))
    assert calls.made == 256
