"""Decides where to claim next, and how many attempts to claim there."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import LaneId
from flowfabric.core.partition import Partition
from flowfabric.worker.attempts.pool import AttemptPool
from flowfabric.worker.loop.lanes import Ask, Lanes, Place
from flowfabric.worker.loop.parked_claims import Parking
from flowfabric.worker.loop.turns import Turns
from flowfabric.worker.reporting.requests import claim_for
from flowfabric.worker.settings import WorkerSettings


class ClaimPlanner:
    """Knows the free slots, the claims that are out, and the places that may have work.

    claiming: set it to False to claim no more.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        pool: AttemptPool,
        parking: Parking,
        turns: Turns,
        kinds: Collection[str] = (),
    ) -> None:
        self._pool = pool
        self._parking = parking
        self._turns = turns
        self._lanes = Lanes(settings.lanes, largest=settings.largest_claim)
        self._requests = {lane: _request(settings, lane, tuple(kinds)) for lane in settings.lanes}
        self._asked = 0  # slots promised to claims that are out
        self._emptied: dict[str, Place] = {}  # by partition, where the last claim took everything
        self._limited: dict[str, Place] = {}  # by partition, where the store has applied a limit
        self.claiming = True

    @property
    def has_claims_out(self) -> bool:
        return self._asked > 0

    @property
    def has_work(self) -> bool:
        """Whether work is known that this worker may claim."""
        return self.claiming and self._lanes.have_work

    @property
    def free(self) -> int:
        """Slots for which no attempt exists and no claim is out or parked."""
        return self._pool.capacity - self._pool.occupied - self._asked - self._parking.slots

    def hear(self, where: Iterable[tuple[LaneId, Partition]]) -> None:
        """Work was announced at these places."""
        self._lanes.hear(where)

    def next(self, free: int) -> Ask | None:
        """The next claim to make with this many free slots."""
        ask = self._lanes.next(free)
        if ask is not None:
            self._asked += ask.count
        return ask

    def ask_for_slots_of(self, tag: str, ended: int) -> Ask | None:
        """Where limits apply, a call with ends must also claim: the store passes freed slots on to that claim only."""
        place, free = self._limited.get(tag), self.free
        if place is None or not self.claiming or free <= 0:
            return None
        ask = self._lanes.ask_for_slots(place, min(ended, free))
        self._asked += ask.count
        return ask

    def ask_with_ends(self, tags: Iterable[str]) -> None:
        """Claim again together with the ends of these partitions, so that a claim is parked where work ran out."""
        if self._emptied:
            for tag in self._emptied.keys() & tags:
                self._ask_at(self._emptied.pop(tag))

    def ask_again(self, tag: str) -> None:
        """Claim again in the partition of an attempt that was suspended: it sends no end to claim with."""
        if tag in self._emptied:
            self._ask_at(self._emptied.pop(tag))
            self._turns.soon()

    def _ask_at(self, place: Place) -> None:
        if self._parking.slots_for(place) is not None:
            self._lanes.hear([(place.lane.lane_id, place.partition)])

    def request(self, ask: Ask) -> b.ClaimExecutionsArgs:
        park = self._parking.slots_for(ask.place)
        if park is not None:
            park = min(park, ask.count)  # a parked claim keeps the slots that it asked for
        return claim_for(self._requests[ask.place.lane.lane_id], ask.count, park)

    def answered(self, ask: Ask, result: b.FinishExecutionsResult) -> None:
        count = len(result.claimed)
        self._asked -= ask.count
        self._lanes.answered(ask, count)
        if 0 < count < ask.count:
            self.emptied(ask.place)
        if result.limited:
            self._limited[ask.place.tag] = ask.place

    def emptied(self, place: Place) -> None:
        """A claim took everything that was there: the next end asks again."""
        self._emptied[place.tag] = place

    def failed(self, ask: Ask) -> None:
        """The claim had no answer: leave the place alone until `resume`."""
        self._asked -= ask.count
        self._lanes.failed(ask)

    def resume(self, place: Place) -> None:
        self._lanes.resume(place)
        self._turns.soon()


def _request(settings: WorkerSettings, lane: LaneId, kinds: tuple[str, ...]) -> b.ClaimExecutionsArgs:
    return b.ClaimExecutionsArgs(
        lane_id=lane,
        worker_id=settings.worker_id,
        worker_instance_id=settings.worker_instance_id,
        lease_ttl_ms=settings.lease_ttl_ms,
        worker_capabilities=settings.capabilities,
        kinds=kinds,
    )
