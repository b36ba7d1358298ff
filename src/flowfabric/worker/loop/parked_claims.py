"""Claims that found no work and wait in the store for some, so that an idle worker starts without asking first.

Each keeps a few slots, a quarter of all together at most: who may get work at any moment must have room for it. They
are recalled when other work needs their slots, when a message may have been lost, and when the worker stops.
"""

from __future__ import annotations

from typing import Final

from flowfabric.core.contracts import batch as b
from flowfabric.worker.loop.lanes import Place

_PER_CLAIM: Final = 8
_SHARE: Final = 4  # of the slots, the part that claims may keep while they wait


class Parked:
    """One claim, where it waits, and the slots it keeps."""

    __slots__ = ("claim", "is_recalled", "place", "slots")

    def __init__(self, claim: b.ParkedClaim, place: Place, slots: int) -> None:
        self.claim = claim
        self.place = place
        self.slots = slots
        self.is_recalled = False


class Parking:
    """Those of one worker."""

    def __init__(self, slots: int) -> None:
        self._most = slots // _SHARE
        self._waiting: dict[str, Parked] = {}
        self._early: dict[str, bytes] = {}
        self.slots = 0  # that are kept

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def slots_for(self, place: Place) -> int | None:
        """How many a claim of this place may keep; None when it must not wait."""
        if self.at(place) is not None:
            return None
        room = min(_PER_CLAIM, self._room)
        return room if room > 0 else None

    def at(self, place: Place) -> Parked | None:
        """The one that waits there."""
        return next((parked for parked in self.to_recall() if parked.place is place), None)

    def waits(self, parked: Parked) -> bool:
        """It was not taken yet."""
        return parked.claim.key in self._waiting

    def add(self, parked: Parked) -> bool:
        """False when too many slots are kept by now, so that it must be recalled."""
        has_room = parked.slots <= self._room
        self._waiting[parked.claim.key] = parked
        self.slots += parked.slots
        return has_room

    @property
    def _room(self) -> int:
        return self._most - sum(parked.slots for parked in self.to_recall())

    def take(self, key: str) -> Parked | None:
        """It waits no more; None when it was taken before."""
        parked = self._waiting.pop(key, None)
        if parked is not None:
            self.slots -= parked.slots
        return parked

    def keep_early(self, key: str, message: bytes) -> None:
        """It came before the answer that says the claim waits: that takes another connection."""
        self._early[key] = message

    def take_early(self, key: str) -> bytes | None:
        return self._early.pop(key, None)

    def forget_early(self) -> None:
        """No answer is on its way any more, so what is left was for others."""
        self._early.clear()

    def to_recall(self) -> list[Parked]:
        """Those that are not being recalled yet, the oldest first."""
        return [parked for parked in self._waiting.values() if not parked.is_recalled]
