"""Quotas: how many executions may start within a sliding window, and how many may run at once.

A slot is held under a ticket, and a release frees only the slot of its own ticket. So both may be repeated
and arrive late. `lib/limits/quota.lua`, `lib/limits/slots.lua` and `lib/limits/ticket.lua` state the same
rules.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from flowfabric.core.contracts.limits import quotas as c
from flowfabric.core.rules.outcome import Refusal

DEFAULT_WINDOW_MS = 60_000
UNLIMITED_ROOM = 1_000_000
# How long a released ticket is remembered: with a slot, while the same call may be in flight; without one, until
# every admission of it is refused as late.
RELEASED_MS, RELEASED_EARLY_MS = 30_000, 900_000
LATE_MS = 600_000
_FIRST_TIME = 10**12  # smaller tickets are not times: a custom scheduler has numbered them


@dataclass(frozen=True, slots=True)
class Quota:
    """The row of a quota policy; a rate or cap of 0 means no limit."""

    rate: int = 0
    cap: int = 0
    window_seconds: int = 0
    key_by: c.QuotaKey | None = None

    @property
    def window_ms(self) -> int:
        return self.window_seconds * 1000 or DEFAULT_WINDOW_MS

    def key_of(self, names: Mapping[str, str]) -> str:
        """The suffix of the counts for an execution with these names; "" if all share one count."""
        return "" if self.key_by is None else f":{self.key_by}:{names.get(self.key_by, '')}"


class Room(NamedTuple):
    """How many more may start now; wait_ms: the time until the window has room, if it is full."""

    free: int
    wait_ms: int | None = None


class Counts(NamedTuple):
    """The counts of one key: the times of the latest starts, and the number of slots taken."""

    key: str = ""
    starts: Sequence[int] = ()
    running: int = 0


class Slot(NamedTuple):
    """The record of one holder: the counts under which it has a slot, or had one when it was released."""

    key: str
    is_released: bool = False


class Admission(NamedTuple):
    """The answer to one holder, and the entries to record: a start in the window, and the slot."""

    result: c.CheckAdmissionResult
    is_start: bool = False
    slot: Slot | None = None
    expires_in_ms: int | None = None  # None: the slot counts as running until it is released


def in_window(quota: Quota, starts: Iterable[int], now: int) -> list[int]:
    """The starts inside the window, oldest first."""
    return sorted(at for at in starts if at > now - quota.window_ms)


def wait_for_window(quota: Quota, starts: Iterable[int], now: int) -> int | None:
    """The time until the window has room; None when it has."""
    counting = in_window(quota, starts, now)
    over = len(counting) - quota.rate
    if quota.rate == 0 or over < 0:
        return None
    return max(1, counting[over] + quota.window_ms - now)


def room(quota: Quota, counts: Counts, now: int) -> Room:
    wait = wait_for_window(quota, counts.starts, now)
    if wait is not None:
        return Room(0, wait)
    free = quota.rate - len(in_window(quota, counts.starts, now)) if quota.rate else UNLIMITED_ROOM
    if quota.cap:
        free = min(free, quota.cap - counts.running)
    return Room(max(0, free))


def holder(execution_id: str, ticket: int) -> str:
    """The holder of a slot: an execution under a ticket, or the execution itself."""
    return f"{execution_id}#{ticket}" if ticket else execution_id


def next_ticket(last: int, now: int) -> int:
    """A ticket is its time of issue, and larger than every earlier ticket, so that none is issued twice."""
    return max(now, last + 1)


def is_late(ticket: int, now: int) -> bool:
    return ticket >= _FIRST_TIME and now - ticket > LATE_MS


def admit(
    quota: Quota, counts: Counts, slot: Slot | None, ticket: int, now: int, *, is_resume: bool
) -> Refusal | Admission:
    """Admit a holder, or give the reason for the refusal. is_resume: a continued execution is no new start."""
    is_over = is_late(ticket, now) if slot is None else slot.is_released
    if is_over:
        return Refusal("claim_grant_expired", {"ticket": ticket})
    if slot is not None:
        return Admission(c.AlreadyAdmitted())
    wait = None if is_resume else wait_for_window(quota, counts.starts, now)
    if wait is not None:
        return Admission(c.RateExceeded(retry_after_ms=wait))
    if quota.cap and counts.running >= quota.cap:
        return Admission(c.ConcurrencyExceeded())
    is_start = quota.rate > 0 and not is_resume
    # Without a cap and a ticket, no slot is counted or released: the note expires with the window.
    if not quota.cap and not ticket:
        return Admission(c.Admitted(), is_start, Slot(""), quota.window_ms)
    return Admission(c.Admitted(), is_start, Slot(counts.key))


def jitter_ms(execution_id: str, now: int, most: int) -> int:
    """An extra wait derived from the execution and the time, so that not all retry at once."""
    digest = hashlib.sha1(f"{execution_id}{now}".encode(), usedforsecurity=False).hexdigest()
    return int(digest[:8], 16) % (most + 1)


class Release(NamedTuple):
    """The effect of a release: the holder and key of the freed slot, and the notes to keep or delete."""

    holder: str
    key: str | None = None  # None: nothing was held
    remember_ms: int | None = None  # remember for this long that the ticket was released
    forget: str | None = None  # delete the note of a holder without a ticket
    is_certain: bool = True  # False: there is new room only if the holder was still counted


def release(ticketed: Slot | None, plain: Slot | None, execution_id: str, ticket: int, listed: str | None) -> Release:
    """Return the slot of a ticket. plain: a slot of the same execution without a ticket.

    listed: the key where the holder was found, if it is released by name.
    """
    who, is_again = holder(execution_id, ticket), ticketed is not None and ticketed.is_released
    remember = None
    if ticket and not is_again:
        remember = RELEASED_MS if ticketed else RELEASED_EARLY_MS
    forget, found = None, ticketed if ticket else None
    if found is None and plain is not None and (not ticket or listed is None):
        who, found, forget = execution_id, plain, execution_id
    key = listed if listed is not None else found.key if found else None
    return Release(who, key, remember, forget, is_certain=not is_again and listed is None)
