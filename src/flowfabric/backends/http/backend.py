"""A store behind a FlowFabric server: every port is a request, so workers and clients need no access to the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Self

import msgspec

from flowfabric.backends.http import shapes
from flowfabric.backends.http.caller import reader
from flowfabric.backends.http.notifications import Ear
from flowfabric.backends.http.operations import BY_PORT, PREFIX
from flowfabric.backends.http.ports import HttpPorts
from flowfabric.backends.http.transport import Query, Transport
from flowfabric.backends.ports import OnHanded
from flowfabric.backends.ports.upkeep import DueSoon
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core.capability import capability_set
from flowfabric.core.contracts import batch as b
from flowfabric.core.cursor import StreamCursor
from flowfabric.core.ids import ExecutionId, FlowId, LaneId, Namespace, WorkerInstanceId
from flowfabric.core.partition import Partition, PartitionConfig
from flowfabric.core.states import PublicState
from flowfabric.errors import BadReply, InvalidInput, NotFound

_LONGEST_WAIT_MS: Final = 20_000

_KINDS_MAX_CHARS: Final = 2_000  # in the address of a stream


class _Store(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    partitions: PartitionConfig


class _Where(msgspec.Struct, frozen=True, kw_only=True):
    lane_id: LaneId
    partition: Partition


class _Timer(msgspec.Struct, frozen=True, kw_only=True):
    partition: Partition
    in_ms: int


_read_store: Final = shapes.reader(_Store)
_read_event: Final = shapes.reader(c.Event)
_read_work: Final = shapes.reader(list[_Where])
_read_timers: Final = shapes.reader(list[_Timer])
_read_partitions: Final = shapes.reader(list[Partition])


class HttpBackend(HttpPorts):
    """The ports of a remote store. Ports that are a single call are in `ports/`; the others are here."""

    def __init__(self, transport: Transport, partitions: PartitionConfig, version: str = "") -> None:
        super().__init__(transport)
        self.partitions = partitions
        self.version = version  # of the server

    @classmethod
    async def open(cls, settings: Settings) -> Self:
        transport = Transport(settings)
        try:
            found = await cls._store(transport)
        except BaseException:
            await transport.close()
            raise
        return cls(transport, found.partitions, found.version)

    @staticmethod
    async def _store(transport: Transport) -> _Store:
        """The server's description of its store; raises InvalidInput if it is not a FlowFabric server."""
        try:
            found: _Store = _read_store(await transport.request("GET", f"{PREFIX}/store"))
        except (NotFound, BadReply, msgspec.DecodeError) as error:
            problem = f"must be a FlowFabric server, like https://flowfabric.example; this one replied: {error}"
            raise InvalidInput("url", transport.address, problem) from error
        return found

    async def ready(self) -> None:
        """Raise an error if the server is not ready."""
        await self._transport.request("GET", "/readyz")

    async def close(self) -> None:
        await self._transport.close()

    def within(self, namespaces: Sequence[Namespace]) -> HttpBackend:
        """Refused: the server restricts namespaces by token."""
        problem = "cannot be chosen over HTTP; connect with a token that is limited to these namespaces"
        raise InvalidInput("namespaces", ", ".join(namespaces), problem)

    async def kept_secret(self) -> None:
        """None: the server's store keeps its own secret."""
        return

    async def submit_executions(self, batch: Sequence[c.CreateExecutionArgs]) -> list[b.SubmitOutcome]:
        operation = BY_PORT["submit_executions"]
        return _submitted(await self.call(operation, operation.signature.request(batch=tuple(batch))))

    async def append_frames(self, batch: Sequence[c.AppendFramesArgs]) -> list[b.AppendFramesOutcome]:
        operation = BY_PORT["append_frames"]
        return _appended(await self.call(operation, operation.signature.request(batch=tuple(batch))))

    async def claim_executions(self, args: b.ClaimExecutionsArgs) -> list[b.ClaimOutcome]:
        return shapes.read_claims(await self.call(BY_PORT["claim_executions"], args), args)

    async def finish_executions(self, args: b.FinishExecutionsArgs) -> b.FinishExecutionsResult:
        request = shapes.FinishRequest.of(args)
        return shapes.read_finished(await self.call(BY_PORT["finish_executions"], request), args)

    async def wait_for_execution(self, execution_id: ExecutionId, *, timeout_ms: int) -> PublicState | None:
        state: PublicState | None = await self._wait("wait_for_execution", timeout_ms, execution_id=execution_id)
        return state

    async def wait_for_flow(self, flow_id: FlowId, *, timeout_ms: int) -> c.FlowState | None:
        state: c.FlowState | None = await self._wait("wait_for_flow", timeout_ms, flow_id=flow_id)
        return state

    async def _wait(self, port: str, timeout_ms: int, **named: Any) -> Any:
        """Wait with several requests, because no single request waits for longer than the server allows."""
        operation, read = BY_PORT[port], reader(port)
        until, left = _now_ms() + timeout_ms, timeout_ms
        while True:
            request = operation.signature.request(timeout_ms=min(left, _LONGEST_WAIT_MS), **named)
            found = read(await self.call(operation, request))
            left = round(until - _now_ms())
            if found is not None or left <= 0:
                return found

    def tail_events(self, execution_id: ExecutionId, *, cursor: str | None = None) -> AsyncIterator[c.Event]:
        return self._events(f"{PREFIX}/executions/{self._transport.quoted(execution_id)}/events", cursor)

    def tail_flow_events(self, flow_id: FlowId, *, cursor: str | None = None) -> AsyncIterator[c.Event]:
        return self._events(f"{PREFIX}/flows/{self._transport.quoted(flow_id)}/events", cursor)

    async def _events(self, path: str, cursor: str | None) -> AsyncIterator[c.Event]:
        async for item in self._transport.events(path, after=cursor):
            if item.kind == "event":
                yield _read_event(item.data)

    @asynccontextmanager
    async def follow_attempt_stream(self, args: c.FollowFramesArgs) -> AsyncIterator[_Follower]:
        yield _Follower(self, args)

    @asynccontextmanager
    async def listen_for_work(
        self,
        lane_ids: Collection[LaneId],
        capabilities: Collection[str] = (),
        *,
        worker_instance_id: WorkerInstanceId | None = None,
        on_handed: OnHanded | None = None,
        kinds: Collection[str] = (),
    ) -> AsyncIterator[Ear[tuple[LaneId, Partition]]]:
        """Claims are not parked over HTTP, so `on_handed` is never called."""
        if isinstance(lane_ids, str) or not lane_ids:
            raise InvalidInput("lane_ids", lane_ids, "must be a collection of at least one lane")
        offered = capability_set(capabilities, "capabilities")
        query: Query = [("lane", str.__str__(LaneId(lane))) for lane in lane_ids]
        query += [("capability", each) for each in offered]
        if sum(map(len, kinds)) <= _KINDS_MAX_CHARS:  # else every announcement is heard, and the claim sorts it out
            query += [("kind", each) for each in kinds]
        async with Ear(self._transport.events(f"{PREFIX}/work/wakeups", query=query), _places) as ear:
            yield ear

    @asynccontextmanager
    async def listen_for_budgets(self) -> AsyncIterator[Ear[Partition]]:
        async with Ear(self._transport.events(f"{PREFIX}/engine/budget-wakeups"), _partitions) as ear:
            yield ear

    @asynccontextmanager
    async def listen_for_due(self) -> AsyncIterator[Ear[DueSoon]]:
        async with Ear(self._transport.events(f"{PREFIX}/engine/due-wakeups"), _timers) as ear:
            yield ear


def _timers(data: bytes) -> set[DueSoon]:
    return {DueSoon(each.partition, each.in_ms) for each in _read_timers(data)}


def _now_ms() -> float:
    return asyncio.get_running_loop().time() * 1000


def _partitions(data: bytes) -> set[Partition]:
    return set(_read_partitions(data))


def _places(data: bytes) -> set[tuple[LaneId, Partition]]:
    return {(each.lane_id, each.partition) for each in _read_work(data)}


class _Follower:
    """Reads the frames of an attempt as they are emitted."""

    def __init__(self, backend: HttpBackend, args: c.FollowFramesArgs) -> None:
        self._backend = backend
        self._args = args
        self._after = args.after

    async def next(self) -> c.StreamFrames:
        args = c.TailFramesArgs(
            execution_id=self._args.execution_id,
            attempt_index=self._args.attempt_index,
            after=self._after,
            count_limit=self._args.count_limit,
            block_ms=_LONGEST_WAIT_MS,
            visibility=self._args.visibility,
        )
        while True:
            found = await self._backend.tail_attempt_stream(args)
            if found.frames or found.closed_at is not None:
                self._after = StreamCursor(found.cursor)
                return found


_submitted: Final = shapes.outcomes(c.CreateExecutionResult)
_appended: Final = shapes.outcomes(c.AppendFramesResult)
