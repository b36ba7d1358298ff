"""Lists that are read page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from flowfabric.client.fabric import Fabric
from flowfabric.core import contracts as c

T = TypeVar("T")
Place = TypeVar("Place")  # where a list goes on

_PAGE: Final = 1_000


async def collected(
    read: Callable[[Place | None, int], Awaitable[tuple[Sequence[T], Place | None]]],
    *,
    cursor: Place | None = None,
    limit: int | None = None,
) -> tuple[list[T], Place | None]:
    """Up to `limit`, or all there are, and where it goes on: a single read may come back short while there are more."""
    found: list[T] = []
    while True:
        page, cursor = await read(cursor, _PAGE if limit is None else limit - len(found))
        found += page
        if cursor is None or (limit is not None and len(found) >= limit):
            return found, cursor


async def all_workers(fabric: Fabric, namespace: str | None = None) -> list[c.WorkerInfo]:
    async def read(cursor: str | None, limit: int) -> tuple[Sequence[c.WorkerInfo], str | None]:
        page = await fabric.workers(namespace=namespace, cursor=cursor, limit=limit)
        return page.workers, page.next_cursor

    found, _ = await collected(read)
    return found
