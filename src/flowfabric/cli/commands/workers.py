"""`workers` and `tasks`: list live workers, what they offer, and the tasks that workers have registered."""

from __future__ import annotations

from typing import Any

import msgspec

from flowfabric.cli.options import AsJson, Cursor, Limit, NamespaceFilter, Url
from flowfabric.cli.parsing import age_text
from flowfabric.cli.running import on_store
from flowfabric.cli.show.output import Output
from flowfabric.cli.show.paging import all_workers, print_page
from flowfabric.client.fabric import Fabric
from flowfabric.client.tasks.payloads import to_json
from flowfabric.core import contracts as c
from flowfabric.core.ids import Namespace


def workers(namespace: NamespaceFilter = None, url: Url = None, as_json: AsJson = False) -> None:
    """List live workers."""

    async def body(fabric: Fabric, out: Output) -> None:
        found = await all_workers(fabric, namespace)
        if out.as_json:
            out.json({"workers": found})
            return
        rows = [
            (
                each.worker_instance_id,
                each.namespace,
                ",".join(each.lanes),
                ",".join(each.capabilities) or "-",
                str(each.slots),
                each.host or "-",
                each.version or "-",
                age_text(each.registered_at),
                age_text(each.last_heartbeat_at),
            )
            for each in found
        ]
        out.table(("WORKER", "NAMESPACE", "LANES", "CAPABILITIES", "SLOTS", "HOST", "VERSION", "AGE", "SEEN"), rows)

    on_store(url, as_json, body)


def tasks(
    namespace: str = "default",
    limit: Limit = 100,
    cursor: Cursor = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the tasks that workers have registered, with their lanes, options and live workers."""

    async def body(fabric: Fabric, out: Output) -> None:
        args = c.ListTasksArgs(namespace=Namespace(namespace), cursor=cursor, limit=limit)
        page = await fabric.backend.list_tasks(args)
        live = await all_workers(fabric, namespace)
        counts = {each.name: sum(each.name in worker.tasks for worker in live) for each in page.tasks}
        if out.as_json:
            rows = [msgspec.structs.asdict(each) | {"live_workers": counts[each.name]} for each in page.tasks]
            out.json({"tasks": rows, "next_cursor": page.next_cursor})
            return
        print_page(page, ("TASK", "LANE", "WORKERS", "OPTIONS", "VERSION", "REGISTERED"), _rows(page, counts), out)

    on_store(url, as_json, body)


def _rows(page: c.ListTasksPage, counts: dict[str, int]) -> list[tuple[str, ...]]:
    return [
        (
            each.name,
            str(each.options.get("lane", "default")),
            str(counts[each.name]),
            _options(each.options),
            each.version or "-",
            age_text(each.registered_at),
        )
        for each in page.tasks
    ]


def _options(options: dict[str, Any]) -> str:
    """All but the lane, in one cell."""
    rest = {name: _shown(value) for name, value in sorted(options.items()) if name != "lane"}
    return " ".join(f"{name}={value}" for name, value in rest.items()) or "-"


def _shown(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"policy"}:
        return str(value["policy"])
    return value if isinstance(value, str) else to_json(value).decode()
