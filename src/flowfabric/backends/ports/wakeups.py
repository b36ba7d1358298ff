"""Wakeups: notify workers of new work, so that they need not poll."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from flowfabric.core.ids import LaneId, WorkerInstanceId
from flowfabric.core.partition import Partition

OnHanded: TypeAlias = Callable[[str, bytes], None]  # the key of a parked claim and the message for its `read`


class WorkListener(Protocol):
    """Notifies a worker of queues with work."""

    async def wait(self) -> frozenset[tuple[LaneId, Partition]]:
        """Wait for announcements since the last call; returns their queues. An empty set means: check every queue."""
        ...


class WakeupPort(Protocol):
    """Subscribe to work and announce it."""

    def listen_for_work(
        self,
        lane_ids: Collection[LaneId],
        capabilities: Collection[str] = (),
        *,
        worker_instance_id: WorkerInstanceId | None = None,
        on_handed: OnHanded | None = None,
        kinds: Collection[str] = (),
    ) -> AbstractAsyncContextManager[WorkListener]:
        """Subscribe to work of these lanes that a worker with these capabilities and tasks can run.

        Messages count from entry on. Without `kinds` the worker may have any task.

        The first wait returns an empty set at once, and so does the first one after a lost connection.
        `on_handed` receives messages for the worker's parked claims; after a lost connection the worker must
        recall those claims.
        """
        ...

    async def announce_work(self, partition: Partition) -> int:
        """Announce every queue of a partition that has work, as a safety net for lost messages."""
        ...
