"""The worker's calls to the store: ending attempts and claiming the next ones, in one call wherever that is possible.

Nothing here waits or polls. Whatever changes (an attempt ends, work is announced, a call returns) asks for a turn; the
turn comes once in a round of the event loop, so everything that ended in that round goes together. At load each call
ends some attempts and claims as many, and while the store works on one half of the slots, the handlers of the other
half run.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from flowfabric.backends.ports import BatchPort
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import LaneId
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.errors import FlowFabricError, Unavailable
from flowfabric.worker.attempts.attempt import Attempt
from flowfabric.worker.loop.end_calls import claim_for
from flowfabric.worker.loop.lanes import Ask, Lanes, Place
from flowfabric.worker.loop.parked_claims import Parked, Parking
from flowfabric.worker.settings import WorkerSettings
from flowfabric.worker.stats import WorkerStats

_logger: Final = logging.getLogger(__name__)

PER_CALL: Final = 100
PAYLOAD_BYTES_PER_CALL: Final = 1_048_576  # a bigger result goes alone
_CALLS_PER_PARTITION: Final = 2
_PAUSE_S: Final = 1.0  # after a call that failed; the client has tried for a while before


class Ending(msgspec.Struct, frozen=True):
    """An attempt and how it ends; `alone` when a call with it has failed for an unknown reason."""

    attempt: Attempt
    args: b.FinishArgs
    alone: bool = False


OnClaimed = Callable[[Sequence[b.ClaimedWork], LaneId, float], None]
OnFinished = Callable[[Sequence[Ending], Sequence[b.FinishOutcome]], None]


class Rounds:
    """Decides when to call, and for what."""

    def __init__(
        self,
        port: BatchPort,
        settings: WorkerSettings,
        stats: WorkerStats,
        *,
        occupied: Callable[[], int],
        on_claimed: OnClaimed,
        on_finished: OnFinished,
        on_return: Callable[[], None],
    ) -> None:
        self._port = port
        self._settings = settings
        self._stats = stats
        self._occupied = occupied
        self._on_claimed = on_claimed
        self._on_finished = on_finished
        self._on_return = on_return
        self._loop = asyncio.get_running_loop()
        self._claims = {lane: self._claim_template(lane) for lane in settings.lanes}
        self._outbox: dict[str, list[Ending]] = {}  # by partition
        self._calls: dict[str, int] = {}  # that are out, by partition
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked = 0  # slots promised to claims that are out
        self._parking = Parking(settings.concurrency)
        self._emptied: dict[str, Place] = {}  # by partition, where the last claim took all there was
        self._limited: dict[str, Place] = {}  # by partition, where limits had a say once
        self._slots = settings.concurrency + settings.prefetch
        self._turn_is_due = False
        self._repeats = 0  # endings that wait to be sent again
        self.lanes = Lanes(settings.lanes, largest=settings.largest_claim)
        self.claiming = True
        self._closed = False

    def finish(self, attempt: Attempt, args: b.FinishArgs, *, alone: bool = False) -> None:
        """Send this with the next call."""
        tag = attempt.execution_id.tag
        line = self._outbox.get(tag)
        if line is None:
            line = self._outbox[tag] = []
        line.append(Ending(attempt, args, alone))
        self.turn_soon()

    def turn_soon(self) -> None:
        if not self._turn_is_due:
            self._turn_is_due = True
            self._loop.call_soon(self._due)

    @property
    def is_quiet(self) -> bool:
        """Nothing is to be sent, nothing is out, and no work is known of that could be claimed."""
        if self._outbox or self._tasks or self._repeats:
            return False
        return not (self.claiming and self.lanes.have_work)

    @property
    def expects_work(self) -> bool:
        """A claim is out or waits, so work may come."""
        return bool(self._asked or self._parking)

    async def close(self) -> None:
        """Give up what is out, and send no more. Claims wait no more; what they were given is left alone."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if recalled := self.recall():
            await asyncio.wait(recalled, timeout=_PAUSE_S)
        for task in recalled:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _due(self) -> None:
        self._turn_is_due = False
        self.turn()

    def turn(self) -> None:
        """Make every call that is to be made now."""
        if self._closed:
            return
        if self.claiming:
            self._claim()
        for tag in list(self._outbox):
            if self._calls.get(tag, 0) < _CALLS_PER_PARTITION:
                endings = self._take(tag)
                self._send(_partition(tag), endings, self._ask_for_slots_of(tag, len(endings)))

    @property
    def _free(self) -> int:
        return self._slots - self._occupied() - self._asked - self._parking.slots

    def _claim(self) -> None:
        unsent = sum(map(len, self._outbox.values()))
        free = self._free
        if free <= 0 and self._parking.slots and self.lanes.have_work:
            self.recall(self._parking.to_recall()[:1])
        if free > 0 and self._emptied:
            self._ask_with_endings()
        if unsent > PER_CALL + self._slots:  # the store does not take endings, so it gets no more to end
            return
        while free > 0 and (ask := self.lanes.next(free)) is not None:
            free -= ask.count
            self._asked += ask.count
            self._send(ask.place.partition, self._take(ask.place.tag), ask)

    def _ask_for_slots_of(self, tag: str, ended: int) -> Ask | None:
        """The slots that endings leave pass on in the same call only if it asks for work."""
        place, free = self._limited.get(tag), self._free
        if place is None or not self.claiming or free <= 0:
            return None
        ask = self.lanes.ask_for_slots(place, min(ended, free))
        self._asked += ask.count
        return ask

    def _ask_with_endings(self) -> None:
        """Where a claim took all there was, the call that ends something asks again, so that a claim waits there."""
        for tag in self._outbox.keys() & self._emptied.keys():
            self._ask_where(self._emptied.pop(tag))

    def ask_without_ending(self, tag: str) -> None:
        """The same for an attempt that has left its partition without an end: it waits for something."""
        if tag in self._emptied:
            self._ask_where(self._emptied.pop(tag))
            self.turn_soon()

    def _ask_where(self, place: Place) -> None:
        if self._parking.slots_for(place) is not None:
            self.lanes.hear([(place.lane.lane_id, place.partition)])

    def _take(self, tag: str) -> list[Ending]:
        """The next endings of a partition that go together."""
        line = self._outbox.get(tag)
        if line is None:
            return []
        count = _how_many(line)
        if count == len(line):
            return self._outbox.pop(tag)
        self._outbox[tag] = line[count:]
        return line[:count]

    def _send(self, partition: Partition, endings: list[Ending], ask: Ask | None) -> None:
        tag = partition.tag
        self._calls[tag] = self._calls.get(tag, 0) + 1
        self._stats.calls += 1
        task = self._loop.create_task(self._call(partition, endings, ask))
        self._tasks.add(task)
        task.add_done_callback(self._returned)

    def _returned(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.turn_soon()
        self._on_return()

    async def _call(self, partition: Partition, endings: list[Ending], ask: Ask | None) -> None:
        sent_at = time.monotonic()
        claim = None if ask is None else self._claim_of(ask)
        try:
            result = await self._ask_store(partition, endings, claim)
        except FlowFabricError as error:
            self._failed(endings, ask, error)
        else:
            if ask is not None:
                self._answered(ask, result, sent_at, claim.park if claim else None)
            if endings:
                self._on_finished(endings, result.finished)
        finally:
            self._calls[partition.tag] -= 1

    def _claim_of(self, ask: Ask) -> b.ClaimExecutionsArgs:
        park = self._parking.slots_for(ask.place)
        if park is not None:
            park = min(park, ask.count)  # the slots it keeps are those it asks for
        return claim_for(self._claims[ask.place.lane.lane_id], ask.count, park)

    async def _ask_store(
        self, partition: Partition, endings: list[Ending], claim: b.ClaimExecutionsArgs | None
    ) -> b.FinishExecutionsResult:
        finish = tuple([ending.args for ending in endings])
        args = b.FinishExecutionsArgs(partition=partition, finish=finish, claim=claim)
        return await self._port.finish_executions(args)

    def _answered(self, ask: Ask, result: b.FinishExecutionsResult, sent_at: float, park: int | None) -> None:
        count = len(result.claimed)
        self._asked -= ask.count
        self.lanes.answered(ask, count)
        self.turn_soon()  # before the handlers start, so that the store has work meanwhile
        if 0 < count < ask.count:
            self._emptied[ask.place.tag] = ask.place
        if result.limited:
            self._limited[ask.place.tag] = ask.place
        if result.parked is not None:
            self._park(Parked(result.parked, ask.place, park or 0))
        if not self._asked:
            self._parking.forget_early()
        self._on_claimed(result.claimed, ask.place.lane.lane_id, sent_at)

    # Claims that wait.

    def _park(self, parked: Parked) -> None:
        message = self._parking.take_early(parked.claim.key)
        if message is not None:
            self._begin_handed(parked, message)
            return
        if older := self._parking.at(parked.place):  # one is enough
            self.recall([older])
        has_room = self._parking.add(parked)
        if not (has_room and self.claiming):
            self.recall([parked])

    def handed(self, key: str, message: bytes) -> None:
        """A claim that waited got work."""
        parked = self._parking.take(key)
        if parked is not None:
            self._begin_handed(parked, message)
        elif self._asked:
            self._parking.keep_early(key, message)

    def _begin_handed(self, parked: Parked, message: bytes) -> None:
        """Ending it asks for the next at the same place, and waits there again."""
        try:
            works = parked.claim.read(message)
        except FlowFabricError as error:
            _logger.warning("work that was handed over could not be read, it is asked for again: %s", error)
            self._parking.add(parked)
            self.recall([parked])
            return
        self._emptied[parked.place.tag] = parked.place
        self._on_claimed(works, parked.place.lane.lane_id, time.monotonic())

    def recall(self, waiting: list[Parked] | None = None) -> list[asyncio.Task[None]]:
        """Have claims wait no more, all of them unless some are named; what they were given is begun."""
        tasks = []
        for parked in self._parking.to_recall() if waiting is None else waiting:
            parked.is_recalled = True
            task = self._loop.create_task(self._recall(parked))
            self._tasks.add(task)
            task.add_done_callback(self._returned)
            tasks.append(task)
        return tasks

    async def _recall(self, parked: Parked) -> None:
        sent_at, works = time.monotonic(), []
        try:
            works = await parked.claim.recall()
        except FlowFabricError as error:
            if isinstance(error, Unavailable) and self.claiming:  # work may still come, so its slots stay kept
                self._loop.call_later(_PAUSE_S, self._recall_again, parked)
                return
            _logger.warning("a claim that waits could not be recalled; what it gets is lost with its lease: %s", error)
        if self._parking.take(parked.claim.key) is not None and not self._closed:  # or its work has come meanwhile
            self._on_claimed(works, parked.place.lane.lane_id, sent_at)

    def _recall_again(self, parked: Parked) -> None:
        if self._parking.waits(parked) and not self._closed:
            self.recall([parked])

    def _failed(self, endings: list[Ending], ask: Ask | None, error: FlowFabricError) -> None:
        """A whole call failed: try again soon, each ending alone when one of them may be the reason."""
        _logger.warning("a call to the store failed, it is repeated: %s", error)
        unreachable = isinstance(error, Unavailable)
        if ask is not None:
            self._asked -= ask.count
            self.lanes.failed(ask)
            if not self._asked:
                self._parking.forget_early()
            self._loop.call_later(_PAUSE_S, self._resume, ask.place)
        for ending in endings:
            if ending.alone and not unreachable:
                self._on_finished([ending], [error])
            else:
                self._repeats += 1
                self._loop.call_later(_PAUSE_S, self._again, ending, not unreachable)

    def _again(self, ending: Ending, alone: bool) -> None:
        self._repeats -= 1
        self.finish(ending.attempt, ending.args, alone=alone)

    def _resume(self, place: Place) -> None:
        self.lanes.resume(place)
        self.turn_soon()

    def _claim_template(self, lane: LaneId) -> b.ClaimExecutionsArgs:
        return b.ClaimExecutionsArgs(
            lane_id=lane,
            worker_id=self._settings.worker_id,
            worker_instance_id=self._settings.worker_instance_id,
            lease_ttl_ms=self._settings.lease_ttl_ms,
            worker_capabilities=self._settings.capabilities,
        )


def _how_many(line: list[Ending]) -> int:
    """How many of the first endings go in one call."""
    if line[0].alone:
        return 1
    size = 0
    for at, ending in enumerate(line[:PER_CALL]):
        if isinstance(ending.args, c.CompleteExecutionArgs):
            size += len(ending.args.result_payload or b"")
        if at and (ending.alone or size > PAYLOAD_BYTES_PER_CALL):
            return at
    return min(len(line), PER_CALL)


def _partition(tag: str) -> Partition:
    return Partition(PartitionFamily.FLOW, int(tag[4:-1]))
