"""The order of steps and waits in one pass: numbers per name, and what may run in parallel."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import NamedTuple


class Occurrence(NamedTuple):
    """The n-th step or wait of a name in this pass, counted from 0; `like` identifies repetitions."""

    name: str
    number: int
    like: object = None

    def __str__(self) -> str:
        return f"{self.name}#{self.number}"


class Occurrences:
    """Numbers the steps and waits of a pass.

    A failed step that is called again with the same function and inputs keeps its number, so that a later pass finds
    its record there.
    """

    def __init__(self) -> None:
        self._taken: defaultdict[str, int] = defaultdict(int)
        self._failed: defaultdict[str, list[Occurrence]] = defaultdict(list)

    def take(self, name: str, like: object = None) -> Occurrence:
        failed = self._failed.get(name, [])
        for at, each in enumerate(failed):
            if each.like == like:
                return failed.pop(at)
        number = self._taken[name]
        self._taken[name] += 1
        return Occurrence(name, number, like)

    def give_back(self, occurrence: Occurrence) -> None:
        """It failed without a record: the next equal call gets its number."""
        self._failed[occurrence.name].append(occurrence)


class Gate:
    """Steps may run in parallel; a suspension runs alone, so that no result of a running step is lost."""

    def __init__(self) -> None:
        self._steps = 0
        self._is_alone = False
        self._change = asyncio.Event()

    def beside(self) -> _Beside:
        return _Beside(self)

    def alone(self) -> _Alone:
        return _Alone(self)

    async def begin_step(self) -> None:
        while self._is_alone:
            await self._changed()
        self._steps += 1

    def end_step(self) -> None:
        self._steps -= 1
        self._change.set()

    async def begin_alone(self) -> None:
        while self._is_alone or self._steps:
            await self._changed()
        self._is_alone = True

    def end_alone(self) -> None:
        self._is_alone = False
        self._change.set()

    async def _changed(self) -> None:
        self._change.clear()
        await self._change.wait()


class _Beside:
    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def __aenter__(self) -> None:
        await self._gate.begin_step()

    async def __aexit__(self, *_: object) -> None:
        self._gate.end_step()


class _Alone:
    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def __aenter__(self) -> None:
        await self._gate.begin_alone()

    async def __aexit__(self, *_: object) -> None:
        self._gate.end_alone()
