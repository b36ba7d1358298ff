"""Collect notifications of a store until the listener asks for them."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

Heard = TypeVar("Heard")


class News(Generic[Heard]):
    """If notifications may have been lost, `wait()` returns an empty set, which means anything may have changed."""

    def __init__(self, *, anything: bool = False) -> None:
        self._heard: set[Heard] = set()
        self._anything = anything
        self._error: Exception | None = None
        self._came = asyncio.Event()

    async def wait(self) -> frozenset[Heard]:
        """The notifications since the last call; an empty set means anything may have changed."""
        while not (self._anything or self._heard):
            self.check()
            self._came.clear()
            await self._came.wait()
        self.check()
        heard = frozenset() if self._anything else frozenset(self._heard)
        self._anything = False
        self._heard.clear()
        return heard

    async def first(self) -> None:
        """Wait for the first notification, without consuming it."""
        await self._came.wait()
        self.check()

    def note(self, heard: Heard) -> None:
        self._heard.add(heard)
        self._came.set()

    def look_everywhere(self) -> None:
        self._anything = True
        self._came.set()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._came.set()

    def check(self) -> None:
        if self._error is not None:
            raise self._error
