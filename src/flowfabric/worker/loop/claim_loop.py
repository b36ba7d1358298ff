"""The worker's calls to the store: end attempts and claim the next ones, in one call wherever possible.

Nothing here waits or polls. Every change (an attempt ends, work is announced, a call returns) asks for a turn. The turn
comes once in a round of the event loop, so all ends of that round go together. Under load each call ends some attempts
and claims as many, and while the store works on one half of the slots, the handlers of the other half run.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from flowfabric.backends.ports import BatchPort
from flowfabric.core.contracts import batch as b
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.errors import FlowFabricError, Unavailable
from flowfabric.worker.attempts.pool import AttemptPool
from flowfabric.worker.loop.claim_planner import ClaimPlanner
from flowfabric.worker.loop.handover import Handover, OnClaimed
from flowfabric.worker.loop.lanes import Ask
from flowfabric.worker.loop.parked_claims import Parked, Parking
from flowfabric.worker.loop.turns import Turns
from flowfabric.worker.reporting.call_tasks import CallTasks
from flowfabric.worker.reporting.outbox import PER_CALL, Ending, Outbox
from flowfabric.worker.settings import WorkerSettings
from flowfabric.worker.stats import WorkerStats

_logger: Final = logging.getLogger(__name__)

_CALLS_PER_PARTITION: Final = 2

OnFinished: TypeAlias = Callable[[Sequence[Ending], Sequence[b.FinishOutcome]], None]


class ClaimLoop:
    """Makes the calls: ends from the outbox, with claims from the planner."""

    def __init__(
        self,
        port: BatchPort,
        pool: AttemptPool,
        outbox: Outbox,
        planner: ClaimPlanner,
        parking: Parking,
        settings: WorkerSettings,
        stats: WorkerStats,
        turns: Turns,
        *,
        on_claimed: OnClaimed,
        on_finished: OnFinished,
    ) -> None:
        self._port = port
        self._outbox = outbox
        self._planner = planner
        self._parking = parking
        self._stats = stats
        self._turns = turns
        self._on_claimed = on_claimed
        self._on_finished = on_finished
        self._tasks = CallTasks(turns)
        self.handover = Handover(parking, planner, self._tasks, settings, on_claimed)
        self._loop = asyncio.get_running_loop()
        self._retry_pause_s = settings.retry_pause_ms / 1000
        self._most_unsent = PER_CALL + pool.capacity
        self._calls: dict[str, int] = {}  # that are out, by partition
        self._closed = False
        turns.listen(self.turn)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is left to send, no call is in flight, and no claimable work is known."""
        return not (self._outbox or self._tasks or self._planner.has_work)

    @property
    def expects_work(self) -> bool:
        """A claim is out or parked, so work may come."""
        return self._planner.has_claims_out or bool(self._parking)

    def turn(self) -> None:
        """Make every call that can be made now."""
        if self._closed:
            return
        if self._planner.claiming:
            self._claim()
        for tag in self._outbox.tags:
            if self._calls.get(tag, 0) < _CALLS_PER_PARTITION:
                endings = self._outbox.take(tag)
                self._send(_partition(tag), endings, self._planner.ask_for_slots_of(tag, len(endings)))

    def _claim(self) -> None:
        planner, free = self._planner, self._planner.free
        is_behind = self._outbox.unsent > self._most_unsent
        if free <= 0 and self._parking.slots and planner.has_work:
            self.handover.recall_one()
        if free > 0:
            planner.ask_with_ends(self._outbox.tags)
        if is_behind:  # the store does not accept ends, so the worker claims no more
            return
        while free > 0 and (ask := planner.next(free)) is not None:
            free -= ask.count
            self._send(ask.place.partition, self._outbox.take(ask.place.tag), ask)

    def _send(self, partition: Partition, endings: list[Ending], ask: Ask | None) -> None:
        tag = partition.tag
        self._calls[tag] = self._calls.get(tag, 0) + 1
        self._stats.calls += 1
        self._tasks.start(self._call(partition, endings, ask))

    async def _call(self, partition: Partition, endings: list[Ending], ask: Ask | None) -> None:
        sent_at = time.monotonic()
        claim = None if ask is None else self._planner.request(ask)
        finish = tuple([ending.args for ending in endings])
        args = b.FinishExecutionsArgs(partition=partition, finish=finish, claim=claim)
        try:
            result = await self._port.finish_executions(args)
        except FlowFabricError as error:
            self._failed(endings, ask, error)
        else:
            if ask is not None:
                self._answered(ask, result, sent_at, claim.park if claim else None)
            if endings:
                self._on_finished(endings, result.finished)
        finally:
            self._calls[partition.tag] -= 1

    def _answered(self, ask: Ask, result: b.FinishExecutionsResult, sent_at: float, park: int | None) -> None:
        self._planner.answered(ask, result)
        self._turns.soon()  # before the handlers start, so that the store has work meanwhile
        if result.parked is not None:
            self.handover.park(Parked(result.parked, ask.place, park or 0))
        self._forget_early()
        self._on_claimed(result.claimed, ask.place.lane.lane_id, sent_at)

    def _forget_early(self) -> None:
        if not self._planner.has_claims_out:
            self._parking.forget_early()

    def _failed(self, endings: list[Ending], ask: Ask | None, error: FlowFabricError) -> None:
        """Retry after a pause; send each end alone when one of them may have made the call fail."""
        _logger.warning("store call failed; retrying: %s", error)
        unreachable = isinstance(error, Unavailable)
        if ask is not None:
            self._planner.failed(ask)
            self._forget_early()
            self._loop.call_later(self._retry_pause_s, self._planner.resume, ask.place)
        for ending in endings:
            if ending.alone and not unreachable:
                self._on_finished([ending], [error])
            else:
                self._outbox.add_later(ending, self._retry_pause_s, alone=not unreachable)

    async def close(self) -> None:
        """Cancel the calls that are out, recall parked claims, and send no more."""
        self._closed = True
        self._tasks.cancel()
        await self.handover.close()
        await self._tasks.close()


def _partition(tag: str) -> Partition:
    return Partition(PartitionFamily.FLOW, int(tag[4:-1]))
