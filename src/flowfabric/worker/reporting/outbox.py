"""Ends of attempts that wait to be sent, by partition."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.worker.attempts.attempt import Attempt
from flowfabric.worker.loop.turns import Turns

PER_CALL: Final = 100
PAYLOAD_BYTES_PER_CALL: Final = 1_048_576  # a bigger result goes alone


class Ending(msgspec.Struct, frozen=True):
    """An attempt and how it ends; `alone` after a call with it failed for an unknown reason."""

    attempt: Attempt
    args: b.FinishArgs
    alone: bool = False


class Outbox:
    """Collects ends for the next call. It is true while ends wait, for a call or for a retry."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._loop = asyncio.get_running_loop()
        self._lines: dict[str, list[Ending]] = {}  # by partition
        self._delayed = 0  # ends that wait for their retry

    def __bool__(self) -> bool:
        return bool(self._lines) or self._delayed > 0

    def add(self, attempt: Attempt, args: b.FinishArgs, *, alone: bool = False) -> None:
        """Send this end with the next call."""
        tag = attempt.execution_id.tag
        line = self._lines.get(tag)
        if line is None:
            line = self._lines[tag] = []
        line.append(Ending(attempt, args, alone))
        self._turns.soon()

    def add_later(self, ending: Ending, delay_s: float, *, alone: bool) -> None:
        """Send an end again after a pause."""
        self._delayed += 1
        self._loop.call_later(delay_s, self._add_again, ending, alone)

    def _add_again(self, ending: Ending, alone: bool) -> None:
        self._delayed -= 1
        self.add(ending.attempt, ending.args, alone=alone)

    @property
    def tags(self) -> list[str]:
        """The partitions for which ends wait."""
        return list(self._lines)

    @property
    def unsent(self) -> int:
        return sum(map(len, self._lines.values()))

    def take(self, tag: str) -> list[Ending]:
        """Take the next ends of a partition that fit in one call."""
        line = self._lines.get(tag)
        if line is None:
            return []
        count = _fitting(line)
        if count == len(line):
            return self._lines.pop(tag)
        self._lines[tag] = line[count:]
        return line[:count]


def _fitting(line: list[Ending]) -> int:
    """How many of the first ends go in one call."""
    if line[0].alone:
        return 1
    size = 0
    for at, ending in enumerate(line[:PER_CALL]):
        if isinstance(ending.args, c.CompleteExecutionArgs):
            size += len(ending.args.result_payload or b"")
        if at and (ending.alone or size > PAYLOAD_BYTES_PER_CALL):
            return at
    return min(len(line), PER_CALL)
