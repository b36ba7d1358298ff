"""Find the filters that an event matches, without checking each of them.

Filters over the same fields (a lane; a namespace and a kind) share a table by value. An event is looked up once per
table, so a thousand filters by lane cost no more than one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from flowfabric.core import contracts as c

T = TypeVar("T", bound=Hashable)

_NAMES: Final = ("execution_id", "namespace", "lane_id", "execution_kind", "flow_id")

Facts = Mapping[str, str | None]
Place = tuple[tuple[str, ...], tuple[str | None, ...]]  # the names, and a value for each


def facts_of(event: c.Event, owner: c.EventOwner) -> Facts:
    """The fields of an event that filters use."""
    return {
        "execution_id": event.execution_id,
        "namespace": owner.namespace,
        "lane_id": owner.lane_id,
        "execution_kind": owner.execution_kind,
        "flow_id": owner.flow_id,
        "partition": owner.partition.tag,
        "event": event.event,
    }


class Filters(Generic[T]):
    """The events each follower asked for."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, ...], dict[tuple[str | None, ...], set[T]]] = {}

    def add(self, wanted: c.ReadEventsArgs, who: T) -> None:
        for names, values in _places(wanted):
            self._tables.setdefault(names, {}).setdefault(values, set()).add(who)

    def remove(self, wanted: c.ReadEventsArgs, who: T) -> None:
        for names, values in _places(wanted):
            table = self._tables[names]
            table[values].discard(who)
            if not table[values]:
                del table[values]
            if not table:
                del self._tables[names]

    def matching(self, facts: Facts) -> Iterator[T]:
        for names, table in self._tables.items():
            yield from table.get(tuple(facts[name] for name in names), ())


def _places(wanted: c.ReadEventsArgs) -> Iterator[Place]:
    """The table entries of a filter: one, or one per requested kind of event."""
    named = {name: str(value) for name in _NAMES if (value := getattr(wanted, name)) is not None}
    if wanted.partition is not None:
        named["partition"] = wanted.partition.tag
    if not wanted.events:
        yield tuple(named), tuple(named.values())
    for kind in wanted.events:
        yield (*named, "event"), (*named.values(), str(kind))
