"""Places that may have work, and weighted fair sharing between the lanes of one worker.

A place is a lane in a partition. It is remembered from the announcement of work until a claim returns less than it
asked for. Every lane has a virtual time that grows with the number of claimed attempts divided by its weight. The lane
with the lowest virtual time goes first, so no lane starves. A lane without work does not save up its share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flowfabric.core.ids import LaneId
from flowfabric.core.partition import Partition

# Claims of one place that may be out at once: a second one only if the last one got all it asked for.
_AT_ONCE = 2


class Place:
    """One lane in one partition."""

    __slots__ = ("asked", "heard", "lane", "partition", "paused", "rich", "tag")

    def __init__(self, lane: Lane, partition: Partition) -> None:
        self.lane = lane
        self.partition = partition
        self.tag = partition.tag
        self.heard = 0  # announcements; a claim sent before the latest one does not prove an empty place
        self.asked = 0  # claims that are out
        self.rich = False  # the last claim got all it asked for
        self.paused = False  # a claim failed; wait for `resume`

    @property
    def worth_asking(self) -> bool:
        return not self.paused and self.asked < (_AT_ONCE if self.rich else 1)


class Lane:
    """One lane: its weight, its virtual time, and the places that may have work, the next one first."""

    __slots__ = ("known", "lane_id", "places", "virtual_time", "weight")

    def __init__(self, lane_id: LaneId, weight: int) -> None:
        self.lane_id = lane_id
        self.weight = weight
        self.virtual_time = 0.0
        self.known: dict[str, Place] = {}
        self.places: dict[str, Place] = {}

    @property
    def has_work(self) -> bool:
        return any(not place.paused for place in self.places.values())

    def hear(self, partition: Partition) -> None:
        tag = partition.tag
        place = self.known.get(tag)
        if place is None:
            place = self.known[tag] = Place(self, partition)
        place.heard += 1
        self.places[tag] = place

    def next_place(self) -> Place | None:
        """The next place to claim at; it moves to the end of the queue."""
        for place in self.places.values():
            if place.worth_asking:
                if len(self.places) > 1:
                    self.places[place.tag] = self.places.pop(place.tag)
                return place
        return None


class Ask:
    """A claim that is out: place, count, and the announcements up to then."""

    __slots__ = ("count", "for_slots", "heard", "place")

    def __init__(self, place: Place, count: int, *, for_slots: bool = False) -> None:
        self.for_slots = for_slots
        self.place = place
        self.count = count
        self.heard = place.heard


class Lanes:
    """The lanes of a worker."""

    def __init__(self, weights: Mapping[LaneId, int], *, largest: int) -> None:
        self._lanes = {lane_id: Lane(lane_id, weight) for lane_id, weight in weights.items()}
        self._largest = largest  # most attempts of one claim

    def hear(self, where: Iterable[tuple[LaneId, Partition]]) -> None:
        for lane_id, partition in where:
            lane = self._lanes.get(lane_id)
            if lane is None:
                continue
            if not lane.has_work:
                self._catch_up(lane)
            lane.hear(partition)

    @property
    def have_work(self) -> bool:
        return any(lane.has_work for lane in self._lanes.values())

    def next(self, free: int) -> Ask | None:
        """The next claim for this many free slots, or None."""
        waiting = [lane for lane in self._lanes.values() if lane.has_work]
        if not waiting:
            return None
        # Other lanes must not overtake a lane whose claims are out by more than one claim.
        behind = min(lane.virtual_time for lane in waiting)
        for lane in sorted(waiting, key=lambda lane: lane.virtual_time):
            if lane.virtual_time - behind > self._largest / lane.weight:
                break
            place = lane.next_place()
            if place is not None:
                place.asked += 1
                return self._ask(place, self._share(lane, waiting, free))
        return None

    def _share(self, lane: Lane, waiting: list[Lane], free: int) -> int:
        if len(waiting) == 1:
            return min(free, self._largest)
        whole = sum(each.weight for each in waiting)
        return min(free, self._largest, -(-free * lane.weight // whole))

    def ask_for_slots(self, place: Place, count: int) -> Ask:
        """A claim for slots that ends have freed; its answer does not tell whether the place is empty."""
        return self._ask(place, count, for_slots=True)

    def _ask(self, place: Place, count: int, *, for_slots: bool = False) -> Ask:
        place.lane.virtual_time += count / place.lane.weight
        return Ask(place, count, for_slots=for_slots)

    def answered(self, ask: Ask, got: int) -> None:
        """A claim returned `got` attempts."""
        place, missing = ask.place, ask.count - got
        if ask.for_slots:
            place.lane.virtual_time -= missing / place.lane.weight
            return
        place.asked -= 1
        place.rich = not missing
        if not missing:
            place.lane.places.setdefault(place.tag, place)
            return
        place.lane.virtual_time -= missing / place.lane.weight
        if place.heard == ask.heard:
            place.lane.places.pop(place.tag, None)

    def failed(self, ask: Ask) -> None:
        """A claim failed; the place is paused until `resume`."""
        place = ask.place
        place.asked -= not ask.for_slots
        place.lane.virtual_time -= ask.count / place.lane.weight
        place.rich = False
        place.paused = True

    def resume(self, place: Place) -> None:
        place.paused = False

    def _catch_up(self, lane: Lane) -> None:
        """Set the virtual time to that of the other lanes: a lane without work does not save up its share."""
        others = [each.virtual_time for each in self._lanes.values() if each is not lane and each.has_work]
        if others:
            lane.virtual_time = max(lane.virtual_time, min(others))
