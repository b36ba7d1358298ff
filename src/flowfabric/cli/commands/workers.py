"""`workers`: list live workers and what they offer."""

from __future__ import annotations

from flowfabric.cli.options import AsJson, NamespaceFilter, Url
from flowfabric.cli.parsing import age_text
from flowfabric.cli.running import on_store
from flowfabric.cli.show.output import Output
from flowfabric.cli.show.paging import all_workers
from flowfabric.client.fabric import Fabric


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
