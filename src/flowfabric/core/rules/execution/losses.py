"""What people read about an attempt that lost its lease.

The record keeps a code, as the wire promises: the state of the lost lease, or that too many were lost.
"""

from __future__ import annotations

from typing import Final

from flowfabric.core.rules.execution.lease import RECLAIM_CAP_CATEGORY, RECLAIM_CAP_REASON
from flowfabric.core.states import OwnershipState

_RAN_OUT: Final = frozenset({OwnershipState.LEASED, OwnershipState.LEASE_EXPIRED_RECLAIMABLE})


def failure_text(reason: str | None, category: str | None, worker: str | None, lost_before: int = 0) -> str | None:
    """The failure reason of an attempt, or of its execution; a code of a lost lease becomes a sentence.

    lost_before: how many leases of the execution were lost before this one.
    """
    if category != RECLAIM_CAP_CATEGORY or reason is None:
        return reason
    who = f"the worker {worker}" if worker else "its worker"
    if reason == RECLAIM_CAP_REASON:
        before = f", like {lost_before} before it" if lost_before else ""
        return f"{who} stopped renewing its lease{before} ({RECLAIM_CAP_REASON})"
    return loss_text(reason, who) or reason


def loss_text(ownership: str | None, who: str = "the worker") -> str | None:
    """What became of a lease in this state; None if it was not lost."""
    if ownership in _RAN_OUT:
        return f"{who} stopped renewing its lease"
    if ownership == OwnershipState.LEASE_REVOKED:
        return f"the lease of {who} was revoked"
    return None
