"""Parked claims: they found no work and wait in the store, so that an idle worker gets new work without a claim.

Each keeps a few slots, because its work may come at any moment; together they keep at most a quarter of all slots. They
are recalled when other work needs their slots, when a message may have been lost, and when the worker stops.
"""

from __future__ import annotations

from typing import Final

from flowfabric.core.contracts import batch as b
from flowfabric.worker.loop.lanes import Place

_PER_CLAIM: Final = 8
_SHARE: Final = 4  # parked claims keep at most 1/_SHARE of the slots


class Parked:
    """One parked claim, its place, and the slots it keeps."""

    __slots__ = ("claim", "is_recalled", "place", "slots")

    def __init__(self, claim: b.ParkedClaim, place: Place, slots: int) -> None:
        self.claim = claim
        self.place = place
        self.slots = slots
        self.is_recalled = False


class Parking:
    """The parked claims of one worker."""

    def __init__(self, slots: int) -> None:
        self._most = slots // _SHARE
        self._waiting: dict[str, Parked] = {}
        self._early: dict[str, bytes] = {}
        self.slots = 0  # kept by parked claims

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def slots_for(self, place: Place) -> int | None:
        """How many slots a claim of this place may keep; None if it must not be parked."""
        if self.at(place) is not None:
            return None
        room = min(_PER_CLAIM, self._room)
        return room if room > 0 else None

    def at(self, place: Place) -> Parked | None:
        """The claim that is parked at this place."""
        return next((parked for parked in self.to_recall() if parked.place is place), None)

    def waits(self, parked: Parked) -> bool:
        """Whether it is still parked."""
        return parked.claim.key in self._waiting

    def add(self, parked: Parked) -> bool:
        """Add a claim. Returns False if too many slots are kept now, so the claim must be recalled."""
        has_room = parked.slots <= self._room
        self._waiting[parked.claim.key] = parked
        self.slots += parked.slots
        return has_room

    @property
    def _room(self) -> int:
        return self._most - sum(parked.slots for parked in self.to_recall())

    def take(self, key: str) -> Parked | None:
        """Remove a claim; None if it was removed before."""
        parked = self._waiting.pop(key, None)
        if parked is not None:
            self.slots -= parked.slots
        return parked

    def keep_early(self, key: str, message: bytes) -> None:
        """Keep a message that came before the answer to its claim; the two use different connections."""
        self._early[key] = message

    def take_early(self, key: str) -> bytes | None:
        return self._early.pop(key, None)

    def forget_early(self) -> None:
        """No claim is out, so the messages that are left were not for this worker."""
        self._early.clear()

    def to_recall(self) -> list[Parked]:
        """The claims that are not being recalled yet, the oldest first."""
        return [parked for parked in self._waiting.values() if not parked.is_recalled]
