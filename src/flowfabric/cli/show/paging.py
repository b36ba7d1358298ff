"""Read lists page by page, and print them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from flowfabric.cli.show.output import Output, Row, Styled
from flowfabric.client.fabric import Fabric
from flowfabric.core import contracts as c


class HasCursor(Protocol):
    """A page of a list; `next_cursor` is None on the last one."""

    @property
    def next_cursor(self) -> str | None: ...


T = TypeVar("T")
Page = TypeVar("Page", bound=HasCursor)

_PAGE: Final = 1_000


async def collected(
    read: Callable[..., Awaitable[Page]],
    items: Callable[[Page], Sequence[T]],
    *,
    cursor: str | None = None,
    limit: int | None = None,
) -> tuple[tuple[T, ...], str | None]:
    """Up to `limit` items, or all, and the next cursor. One read may return fewer items although there are more."""
    found: list[T] = []
    while True:
        page = await read(cursor=cursor, limit=_PAGE if limit is None else limit - len(found))
        found += items(page)
        cursor = page.next_cursor
        if cursor is None or (limit is not None and len(found) >= limit):
            return tuple(found), cursor


def print_page(page: HasCursor, columns: Sequence[str], rows: Sequence[Row], out: Output) -> None:
    """The page as JSON, or its rows as a table with a hint on how to continue."""
    if out.as_json:
        out.json(page)
        return
    out.table(columns, rows)
    if page.next_cursor is not None:
        out.line(Styled(f"there may be more: --cursor {page.next_cursor}", "dim"))


async def all_workers(fabric: Fabric, namespace: str | None = None) -> list[c.WorkerInfo]:
    found, _ = await collected(partial(fabric.workers, namespace=namespace), lambda page: page.workers)
    return list(found)
