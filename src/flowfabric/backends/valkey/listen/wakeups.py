"""WakeupPort on Valkey: one subscription to queues with work and to budgets, for all listeners.

A step that makes a queue non-empty publishes `<partition>` or `<partition> <capabilities>` on the lane's channel
(lua/lib/claim/wakeup.lua). Messages without subscribers are lost, so a listener that was away looks everywhere once.
Each worker has its own channel for work handed to its parked claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache
from typing import Any, Final, TypeVar

from flowfabric.backends.ports import OnHanded, WorkListener
from flowfabric.backends.ports.budgets import BudgetListener
from flowfabric.backends.ports.upkeep import DueListener, DueSoon
from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import FunctionCaller
from flowfabric.backends.valkey.listen.parked_claims import KEY_LENGTH
from flowfabric.backends.valkey.listen.subscriptions import Ear
from flowfabric.backends.valkey.ports.maintenance import tag_of
from flowfabric.backends.valkey.wire.client import Client, Reply
from flowfabric.backends.valkey.wire.connection import AccessRefused, Connection, ServerReplyError
from flowfabric.backends.valkey.wire.retrying import NOT_ALLOWED
from flowfabric.core import capability
from flowfabric.core.ids import LaneId, WorkerInstanceId
from flowfabric.core.partition import Partition, PartitionConfig, PartitionKey
from flowfabric.core.rules.tasks import lacks
from flowfabric.errors import BackendUnavailable, InvalidInput

E = TypeVar("E", bound=Ear[Any])

_COMMAND_TIMEOUT_MS: Final = 5_000
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0


class ValkeyWakeups:
    """Hear of work instead of polling for it."""

    _caller: FunctionCaller
    _announcements: Announcements
    partitions: PartitionConfig

    def listen_for_work(
        self,
        lane_ids: Collection[LaneId],
        capabilities: Collection[str] = (),
        *,
        worker_instance_id: WorkerInstanceId | None = None,
        on_handed: OnHanded | None = None,
        kinds: Collection[str] = (),
    ) -> AbstractAsyncContextManager[WorkListener]:
        listener = _Listener(lane_ids, capabilities, kinds)
        if worker_instance_id is not None and on_handed is not None:
            listener.take_from(keys.hand_channel(worker_instance_id).encode(), on_handed)
        return self._announcements.listen(listener)

    def listen_for_budgets(self) -> AbstractAsyncContextManager[BudgetListener]:
        return self._announcements.listen(_BudgetListener([keys.BUDGET_CHANNEL.encode()]))

    def listen_for_due(self) -> AbstractAsyncContextManager[DueListener]:
        return self._announcements.listen(_DueListener([keys.DUE_CHANNEL.encode()]))

    async def announce_work(self, partition: Partition) -> int:
        fields = await self._caller.call_partition("announce_work", tag_of(partition, self.partitions))
        return fields.number(0)


class _Listener(Ear[tuple[LaneId, Partition]]):
    """Waits for work of some lanes."""

    def __init__(
        self, lane_ids: Collection[LaneId], capabilities: Collection[str], kinds: Collection[str] = ()
    ) -> None:
        if isinstance(lane_ids, str) or not lane_ids:
            raise InvalidInput("lane_ids", lane_ids, "must be a collection of at least one lane")
        self.lanes = {keys.wake_channel(LaneId(lane)).encode(): LaneId(lane) for lane in lane_ids}
        super().__init__(self.lanes)
        self._on_handed: OnHanded | None = None
        self._offered = capability.capability_set(capabilities, "capabilities")
        self._kinds = frozenset(kinds)

    def take_from(self, channel: bytes, on_handed: OnHanded) -> None:
        """Also take work handed to parked claims."""
        self.channels.add(channel)
        self._on_handed = on_handed

    def hear(self, channel: bytes, text: bytes) -> None:
        lane_id = self.lanes.get(channel)
        if lane_id is None:
            if self._on_handed is not None:
                self._on_handed(text[:KEY_LENGTH].decode(errors="replace"), text)
            return
        announced = _announcement(text)
        if announced is not None and not (announced[1] and lacks(announced[1], self._offered, self._kinds)):
            self.note((lane_id, announced[0]))


class _BudgetListener(Ear[Partition]):
    """Waits for notices of budgets."""

    def hear(self, channel: bytes, text: bytes) -> None:
        if announced := _announcement(text):
            self.note(announced[0])


class _DueListener(Ear[DueSoon]):
    """Waits for timers that are due soon."""

    def hear(self, channel: bytes, text: bytes) -> None:
        tag, _, in_ms = text.decode(errors="replace").partition(" ")
        if in_ms.isdecimal() and (announced := _announcement(tag.encode())):
            self.note(DueSoon(announced[0], int(in_ms)))


class Announcements:
    """The subscriptions of a backend: one connection to any node while there are listeners, none otherwise."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._listeners: dict[bytes, set[Ear[Any]]] = {}  # by channel
        self._subscribed: set[bytes] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @asynccontextmanager
    async def listen(self, listener: E) -> AsyncIterator[E]:
        """Listen. If messages may have been lost, `wait()` returns an empty set."""
        if self._closed:
            raise BackendUnavailable("the backend is closed", sent=False)
        self._add(listener)
        try:
            await listener.ready.wait()
            listener.check()
            yield listener
        finally:
            self._remove(listener)

    async def close(self) -> None:
        self._closed = True
        self._fail(BackendUnavailable("the backend is closed", sent=False))
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _add(self, listener: Ear[Any]) -> None:
        for channel in listener.channels:
            self._listeners.setdefault(channel, set()).add(listener)
        self._changed.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def _remove(self, listener: Ear[Any]) -> None:
        for channel in listener.channels:
            self._listeners[channel].discard(listener)
            if not self._listeners[channel]:
                del self._listeners[channel]
        self._changed.set()

    def _everybody(self) -> set[Ear[Any]]:
        return {listener for listeners in self._listeners.values() for listener in listeners}

    def _fail(self, error: Exception) -> None:
        for listener in self._everybody():
            listener.fail(error)

    async def _run(self) -> None:
        """Stay connected while there are listeners; retry transient errors after a pause."""
        pause = _FIRST_PAUSE_S
        try:
            while self._listeners:
                try:
                    await self._listen()
                except (ServerReplyError, BackendUnavailable) as error:
                    if isinstance(error, ServerReplyError) and error.prefix in NOT_ALLOWED:
                        raise AccessRefused(error.text, sent=False) from error
                    if isinstance(error, AccessRefused):
                        raise
                    pause = _FIRST_PAUSE_S if self._subscribed else min(2 * pause, _LONGEST_PAUSE_S)
                    await asyncio.sleep(pause)
        except Exception as error:  # whatever it is, wake every listener
            self._fail(error)
        finally:
            self._task = None

    async def _listen(self) -> None:
        """Run one connection. Messages between the lost connection and this one were missed."""
        self._subscribed.clear()
        connection = await self._client.dedicated(command_timeout_ms=_COMMAND_TIMEOUT_MS, on_message=self._hear)
        watch = asyncio.create_task(connection.wait_closed())
        watch.add_done_callback(lambda _: self._changed.set())
        try:
            await self._subscribe(connection)
            for listener in self._everybody():
                listener.look_everywhere()
            while self._listeners:
                await self._changed.wait()
                if connection.closed:
                    raise BackendUnavailable(f"{connection.peer}: the connection was lost", sent=False)
                await self._subscribe(connection)
        finally:
            watch.cancel()
            await connection.close()

    async def _subscribe(self, connection: Connection) -> None:
        """Subscribe to the channels that have listeners, and to no others."""
        self._changed.clear()
        wanted = set(self._listeners)
        await asyncio.gather(
            *(connection.send("SUBSCRIBE", channel) for channel in wanted - self._subscribed),
            *(connection.send("UNSUBSCRIBE", channel) for channel in self._subscribed - wanted),
        )
        self._subscribed = wanted
        for listener in self._everybody():
            if listener.channels <= wanted:
                listener.ready.set()

    def _hear(self, message: list[Reply]) -> None:
        _, channel, text = message
        if not isinstance(channel, bytes) or not isinstance(text, bytes):
            return
        for listener in tuple(self._listeners.get(channel, ())):
            listener.hear(channel, text)


@lru_cache(maxsize=4_096)
def _announcement(text: bytes) -> tuple[Partition, tuple[str, ...]] | None:
    """The partition and the required capabilities; None for a message of another program."""
    tag, _, needed = text.decode(errors="replace").partition(" ")
    try:
        return PartitionKey(tag).parse(), tuple(needed.split(",")) if needed else ()
    except InvalidInput:
        return None
