"""Lists that are short enough to be wanted whole, read page by page."""

from __future__ import annotations

from flowfabric.client.fabric import Fabric
from flowfabric.core import contracts as c


async def all_workers(fabric: Fabric, namespace: str | None = None) -> list[c.WorkerInfo]:
    found: list[c.WorkerInfo] = []
    cursor = None
    while True:
        page = await fabric.workers(namespace=namespace, cursor=cursor, limit=1_000)
        found += page.workers
        cursor = page.next_cursor
        if cursor is None:
            return found
