"""What a worker has done, counted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class WorkerStats:
    """Counts since the worker was made. `lost`: leases that were gone before the attempt's end could be told."""

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
    calls: int = 0  # that claimed or finished
