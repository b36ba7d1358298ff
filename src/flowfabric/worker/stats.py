"""Counters of a worker."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class WorkerStats:
    """Counts since the worker was made. `lost`: attempts whose lease was gone before their end was reported."""

    claimed: int = 0
    completed: int = 0
    failed: int = 0
    retried: int = 0
    snoozed: int = 0
    suspended: int = 0
    cancelled: int = 0
    timed_out: int = 0
    lost: int = 0
    handed_back: int = 0
    unknown: int = 0
    calls: int = 0  # calls that claimed or finished attempts
