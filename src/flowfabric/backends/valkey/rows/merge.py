"""Lists over all partitions: read each partition's part, then merge the parts in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from flowfabric.backends.valkey.library.calls import at_once

T = TypeVar("T")

# The sort key of a merged list: (created_at, id) for executions, (at_ms, partition, line number) for events.
Place = tuple[Any, ...]

# How many rounds one port call may read, and the share of a page that the first round asks for.
_ROUNDS = 8
_FIRST_PART = 8


class Source(ABC, Generic[T]):
    """One partition's part of a merged list: what was found, and how far it was read."""

    def __init__(self) -> None:
        self.found: list[tuple[Place, T]] = []
        self.reached: Place | None = None  # None: not read yet
        self.finished = False

    @abstractmethod
    async def ask(self, count: int) -> None:
        """Find up to `count` more; advance `reached`, or set `finished` at the end."""


async def fill(sources: Sequence[Source[T]], limit: int, *, newest: bool = False) -> None:
    """Read until the first `limit` of the merged list are known, or the rounds are used up.

    The first round reads a small part of each: with many partitions most of a page comes from a few.
    """
    part = min(limit, max(10, limit // _FIRST_PART))
    for _ in range(_ROUNDS):
        known = sorted((place for source in sources for place, _ in source.found), reverse=newest)
        last = known[limit - 1] if len(known) >= limit else None
        behind = [source for source in sources if not source.finished and _is_behind(source, last, newest=newest)]
        if not behind:
            return
        await at_once(source.ask(part) for source in behind)
        part = limit


def _is_behind(source: Source[T], last: Place | None, *, newest: bool) -> bool:
    if source.reached is None or last is None:
        return True
    return source.reached > last if newest else source.reached < last


def settled(sources: Sequence[Source[T]], limit: int, *, newest: bool = False) -> tuple[list[tuple[Place, T]], bool]:
    """The first `limit` whose order is final, and whether more may follow."""
    bound = first(sources, newest=newest)
    found = sorted((each for source in sources for each in source.found), key=lambda each: each[0], reverse=newest)
    if bound is not None:
        found = [each for each in found if (each[0] >= bound if newest else each[0] <= bound)]
    total = sum(len(source.found) for source in sources)
    return found[:limit], bound is not None or total > limit


def first(sources: Iterable[Source[T]], *, newest: bool) -> Place | None:
    """How far all partitions have been read; None: to the end."""
    places = [source.reached for source in sources if not source.finished and source.reached is not None]
    return (max(places) if newest else min(places)) if places else None
