"""Who does what, when several engines share a store.

Rendezvous hashing: each replica has a weight for each piece of work, and the heaviest has it. All who know the same
replicas come to the same answer without talking, and when one leaves, only what it had moves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import blake2b


def owner(work: str, replicas: Collection[str]) -> str | None:
    """The replica that has this piece of work; None when there is no replica."""
    return max(replicas, key=lambda replica: (_weight(work, replica), replica), default=None)


def share_of(replica: str, works: Iterable[str], replicas: Collection[str]) -> frozenset[str]:
    """Everything of `works` that this replica has."""
    return frozenset(work for work in works if owner(work, replicas) == replica)


def _weight(work: str, replica: str) -> int:
    """Spread evenly, and the same in every process, which Python's own hash is not."""
    return int.from_bytes(blake2b(f"{replica}\0{work}".encode(), digest_size=8).digest())
