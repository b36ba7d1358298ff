"""Exponential backoff for failed items, so that they cannot delay the rest."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from flowfabric.errors import FlowFabricError, Unavailable

# An unreachable store may be back at any moment.
_MOST_WHILE_UNAVAILABLE_MS = 2_000
_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double from `first_ms` to `most_ms`."""

    first_ms: int
    most_ms: int

    def after(self, failures: int, error: BaseException | None = None) -> int:
        """The wait after this many consecutive failures, the last of which was `error`."""
        doubled = self.first_ms << min(max(failures - 1, 0), 32)
        most = min(self.most_ms, _MOST_WHILE_UNAVAILABLE_MS) if isinstance(error, Unavailable) else self.most_ms
        return min(doubled, most)


class SetAsideItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item that is not retried for now."""

    what: str
    failures: int  # consecutive
    retry_in_ms: int
    error: str


@dataclass(slots=True)
class _Failure:
    count: int
    until_ms: float
    error: str


class SetAside:
    """Failed items and the time of their next retry; at most one entry per partition."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._failures: dict[str, _Failure] = {}

    def __len__(self) -> int:
        return len(self._failures)

    def holds(self, what: str, now_ms: float) -> bool:
        return self.until_ms(what) > now_ms

    def until_ms(self, what: str) -> float:
        """When the item may be retried; 0 if it did not fail."""
        failure = self._failures.get(what)
        return failure.until_ms if failure else 0.0

    def failed(self, what: str, error: BaseException, now_ms: float) -> int:
        """Record a failure; return the wait before the next retry."""
        count = self._failures[what].count + 1 if what in self._failures else 1
        wait = self._backoff.after(count, error)
        self._failures[what] = _Failure(count, now_ms + wait, described(error))
        return wait

    def worked(self, what: str) -> None:
        self._failures.pop(what, None)

    def keep_only(self, those: frozenset[str]) -> None:
        """Drop items that another replica owns now."""
        for what in self._failures.keys() - those:
            del self._failures[what]

    def shown(self, now_ms: float) -> tuple[SetAsideItem, ...]:
        """The items with most failures first."""
        worst = sorted(self._failures.items(), key=lambda item: (-item[1].count, item[0]))[:_SHOWN]
        return tuple(
            SetAsideItem(
                what=what,
                failures=failure.count,
                retry_in_ms=max(0, round(failure.until_ms - now_ms)),
                error=failure.error,
            )
            for what, failure in worst
        )


def described(error: BaseException) -> str:
    """An error as one line; errors of other libraries are prefixed with their class."""
    return str(error) if isinstance(error, FlowFabricError) else f"{type(error).__name__}: {error}"
