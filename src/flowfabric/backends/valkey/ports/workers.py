"""WorkerPort on Valkey: all workers of a store are on one slot, since they are few and listed together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import Fields, FunctionCaller, Value
from flowfabric.backends.valkey.library.cursors import decode_cursor, encode_cursor
from flowfabric.backends.valkey.library.records import reading
from flowfabric.core import capability
from flowfabric.core import contracts as c
from flowfabric.core.codec import from_json, to_json, to_msgpack
from flowfabric.core.ids import LaneId, Namespace, WorkerId, WorkerInstanceId
from flowfabric.core.rules.tasks import unescaped


class ValkeyWorkers:
    """Register, list and expire workers."""

    _caller: FunctionCaller

    async def register_worker(self, args: c.RegisterWorkerArgs) -> c.RegisterWorkerResult:
        fields = await self._call_worker(
            "register_worker",
            args,
            worker_instance_id=args.worker_instance_id,
            worker_id=args.worker_id,
            lanes_csv=_lanes_csv(args.lanes),
            caps_csv=capability.to_csv(args.capabilities),
            ttl_ms=args.ttl_ms,
            version=args.version,
            host=args.host,
            slots=args.slots,
            tasks=_packed(args.tasks),
        )
        return c.WorkerRegistered() if fields.text(0) == "registered" else c.WorkerRefreshed()

    async def heartbeat_worker(self, args: c.HeartbeatWorkerArgs) -> c.HeartbeatWorkerResult:
        fields = await self._call_worker("heartbeat_worker", args)
        if fields.text(0) == "not_registered":
            return c.WorkerNotRegistered()
        return c.HeartbeatAccepted(next_expiry_ms=fields.number(2))

    async def mark_worker_dead(self, args: c.MarkWorkerDeadArgs) -> c.MarkWorkerDeadResult:
        fields = await self._call_worker("mark_worker_dead", args)
        return c.WorkerMarkedDead() if fields.text(0) == "marked" else c.WorkerNotRegistered()

    async def list_workers(self, args: c.ListWorkersArgs) -> c.ListWorkersPage:
        after = decode_cursor("workers", args.cursor, tuple[str])[0] if args.cursor else ""
        namespace = keys.part(args.namespace) if args.namespace else ""
        fields = await self._caller.call(
            "list_workers",
            {"index": keys.WORKERS_BY_NAME},
            {"namespace": namespace, "after": after, "limit": args.limit},
        )
        reached = fields.text(0)
        return c.ListWorkersPage(
            workers=tuple(_read(row) for row in fields.rows(1)),
            next_cursor=encode_cursor("workers", reached) if reached else None,
        )

    async def list_tasks(self, args: c.ListTasksArgs) -> c.ListTasksPage:
        after = decode_cursor("tasks", args.cursor, tuple[str])[0] if args.cursor else ""
        fields = await self._caller.call(
            "list_tasks",
            {"index": keys.WORKERS_BY_NAME},
            {"namespace": args.namespace or "default", "name": args.name, "after": after, "limit": args.limit},
        )
        reached = fields.text(0)
        return c.ListTasksPage(
            tasks=tuple(_task(row) for row in fields.rows(1)),
            next_cursor=encode_cursor("tasks", reached) if reached else None,
        )

    async def expire_workers(self, *, limit: int = 100) -> int:
        fields = await self._caller.call("expire_workers", {"index": keys.WORKERS_BY_EXPIRY}, {"limit": limit})
        return fields.number(0)

    async def _call_worker(
        self,
        operation: str,
        who: c.RegisterWorkerArgs | c.HeartbeatWorkerArgs | c.MarkWorkerDeadArgs,
        **args: Value,
    ) -> Fields:
        key = keys.worker(who.namespace, who.worker_instance_id)
        return await self._caller.call(operation, {"caps": key}, args, subject=who.worker_instance_id)


def _lanes_csv(lanes: Iterable[LaneId]) -> str:
    """Encode lane names; commas in them are escaped."""
    return ",".join(lane.replace("%", "%25").replace(",", "%2C") for lane in lanes)


def _lanes(csv: str) -> tuple[LaneId, ...]:
    names = csv.split(",") if csv else ()
    return tuple(LaneId(name.replace("%2C", ",").replace("%25", "%")) for name in names)


def _packed(tasks: Iterable[c.TaskEntry]) -> bytes | None:
    listed = [(each.name, to_json(each.options).decode()) for each in tasks]
    return to_msgpack(listed) if listed else None


def _task(row: list[str]) -> c.RegisteredTask:
    with reading("task", row[0]):
        name, options, version, registered_at = row
        return c.RegisteredTask(
            name=name, options=from_json(dict[str, Any], options), version=version, registered_at=int(registered_at)
        )


def _read(row: list[str]) -> c.WorkerInfo:
    with reading("worker", row[0]):
        return _worker(row)


def _worker(row: list[str]) -> c.WorkerInfo:
    name, expires_at, worker_id, lanes, capabilities, *rest = row
    version, host, slots, registered_at, last_heartbeat_at, tasks = rest
    namespace, _, instance_id = name.partition(":")
    return c.WorkerInfo(
        namespace=Namespace(keys.name_of(namespace)),
        worker_id=WorkerId(worker_id),
        worker_instance_id=WorkerInstanceId(keys.name_of(instance_id)),
        lanes=_lanes(lanes),
        capabilities=tuple(capabilities.split(",")) if capabilities else (),
        version=version,
        host=host,
        slots=int(slots or 0),
        registered_at=int(registered_at),
        last_heartbeat_at=int(last_heartbeat_at),
        expires_at=int(expires_at),
        tasks=tuple(unescaped(each) for each in tasks.split(",")) if tasks else (),
    )
