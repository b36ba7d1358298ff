"""Hear of work instead of polling for it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from flowfabric.core.ids import LaneId, WorkerInstanceId
from flowfabric.core.partition import Partition

OnHanded: TypeAlias = Callable[[str, bytes], None]  # the key of a parked claim, and what its `read` understands


class WorkListener(Protocol):
    """Hears of queues that have work."""

    async def wait(self) -> frozenset[tuple[LaneId, Partition]]:
        """Return when work was announced since the last call: where. An empty set means anywhere: look everywhere."""
        ...


class WakeupPort(Protocol):
    """Being told of work instead of asking for it."""

    def listen_for_work(
        self,
        lane_ids: Collection[LaneId],
        capabilities: Collection[str] = (),
        *,
        worker_instance_id: WorkerInstanceId | None = None,
        on_handed: OnHanded | None = None,
    ) -> AbstractAsyncContextManager[WorkListener]:
        """Hear of work of these lanes that the capabilities suffice for, from the moment this is entered.

        The first wait returns at once with an empty set, as does the first one after a lost connection. What comes for
        parked claims of the worker goes to `on_handed` meanwhile; after a lost connection they are to be recalled.
        """
        ...

    async def announce_work(self, partition: Partition) -> int:
        """Announce every queue of a partition that has work again: the safety net for lost messages."""
        ...
