"""How several engines divide the work of a store.

Rendezvous hashing: each replica has a weight for each piece of work, and the heaviest one owns it. Replicas that know
the same members agree without communication, and when one leaves, only its own work moves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import blake2b


def owner(work: str, replicas: Collection[str]) -> str | None:
    """The replica that owns this piece of work; None when there is no replica."""
    return max(replicas, key=lambda replica: (_weight(work, replica), replica), default=None)


def share_of(replica: str, works: Iterable[str], replicas: Collection[str]) -> frozenset[str]:
    """The items of `works` that this replica owns."""
    return frozenset(work for work in works if owner(work, replicas) == replica)


def _weight(work: str, replica: str) -> int:
    """Evenly spread and equal in every process, unlike Python's own hash."""
    return int.from_bytes(blake2b(f"{replica}\0{work}".encode(), digest_size=8).digest())
