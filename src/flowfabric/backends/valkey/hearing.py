"""Somebody who hears of something on channels, and what they heard since they last asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Generic, TypeVar

Heard = TypeVar("Heard")


class Ear(Generic[Heard]):
    """What all listeners share: nothing is missed without a word, because who was away hears "everywhere"."""

    def __init__(self, channels: Iterable[bytes]) -> None:
        self.channels = set(channels)
        self.ready = asyncio.Event()
        self._heard: set[Heard] = set()
        self._everywhere = True
        self._error: Exception | None = None
        self._news = asyncio.Event()
        self._news.set()

    async def wait(self) -> frozenset[Heard]:
        """What was heard since the last call; an empty set means anything."""
        while not (self._everywhere or self._heard):
            self.check()
            self._news.clear()
            await self._news.wait()
        self.check()
        heard = frozenset() if self._everywhere else frozenset(self._heard)
        self._everywhere = False
        self._heard.clear()
        return heard

    def note(self, heard: Heard) -> None:
        self._heard.add(heard)
        self._news.set()

    def hear(self, channel: bytes, text: bytes) -> None:
        """A message came."""
        raise NotImplementedError

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def look_everywhere(self) -> None:
        self._everywhere = True
        self._news.set()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._news.set()
        self.ready.set()
