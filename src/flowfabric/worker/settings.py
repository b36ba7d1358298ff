"""The settings of a worker, validated when it is made."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from flowfabric.client.tasks.options import Duration, ms
from flowfabric.core import limits
from flowfabric.core.capability import capability_set
from flowfabric.core.ids import LaneId, Namespace, WorkerId, WorkerInstanceId
from flowfabric.errors import InvalidInput

MAX_CONCURRENCY = 10_000
MAX_WEIGHT = 1_000
# A cancelled execution or a revoked lease is noticed at the next renewal.
RENEW_AT_LEAST_EVERY_MS = 2_000


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """All settings of a worker. Times are whole milliseconds."""

    lanes: Mapping[LaneId, int]  # weights
    capabilities: tuple[str, ...]
    concurrency: int
    prefetch: int
    lease_ttl_ms: int
    namespace: Namespace
    worker_id: WorkerId
    worker_instance_id: WorkerInstanceId
    grace_ms: int
    cancel_grace_ms: int
    blocking_threshold_ms: int
    processes: int
    version: str = ""
    unknown_delay_ms: int = 10_000
    presence_ttl_ms: int = 30_000
    retry_pause_ms: int = 1_000  # after a store call that failed; the client has already retried for a while
    host: str = field(default_factory=socket.gethostname)

    @property
    def renew_every_ms(self) -> int:
        return max(1, min(self.lease_ttl_ms // 3, RENEW_AT_LEAST_EVERY_MS))

    @property
    def largest_claim(self) -> int:
        """Half of the slots: while the handlers of one half run, the store works on the other half."""
        return min(100, -(-(self.concurrency + self.prefetch) // 2))


def make_settings(
    *,
    lanes: Sequence[str] | Mapping[str, int],
    capabilities: Collection[str],
    concurrency: int,
    prefetch: int,
    lease_ttl_ms: int,
    namespace: str,
    worker_id: str,
    worker_instance_id: str | None,
    grace: Duration,
    cancel_grace: Duration,
    blocking_threshold: Duration,
    processes: int | None,
    version: str,
) -> WorkerSettings:
    limits.whole("concurrency", concurrency, 1, MAX_CONCURRENCY)
    limits.whole("prefetch", prefetch, 0, concurrency)
    limits.whole("lease_ttl_ms", lease_ttl_ms, 100, limits.LEASE_TTL_MAX_MS)
    if processes is not None:
        limits.whole("processes", processes, 1, MAX_CONCURRENCY)
    return WorkerSettings(
        lanes=_weights(lanes),
        capabilities=capability_set(capabilities, "capabilities"),
        concurrency=concurrency,
        prefetch=prefetch,
        lease_ttl_ms=lease_ttl_ms,
        namespace=Namespace(namespace),
        worker_id=WorkerId(worker_id),
        worker_instance_id=WorkerInstanceId(worker_instance_id or _instance_of(worker_id)),
        grace_ms=ms("grace", grace),
        cancel_grace_ms=ms("cancel_grace", cancel_grace),
        blocking_threshold_ms=ms("blocking_threshold", blocking_threshold, low=1),
        processes=processes or os.cpu_count() or 1,
        version=limits.label("version", version, 0, limits.NAME_MAX_BYTES),
    )


def _weights(lanes: Sequence[str] | Mapping[str, int]) -> dict[LaneId, int]:
    if isinstance(lanes, str):
        raise InvalidInput("lanes", lanes, "must be a list of lanes, or a mapping of lanes to weights")
    weights = dict(lanes) if isinstance(lanes, Mapping) else dict.fromkeys(lanes, 1)
    if not weights:
        raise InvalidInput("lanes", lanes, "must name at least one lane")
    return {LaneId(lane): limits.whole(f"lanes[{lane!r}]", weight, 1, MAX_WEIGHT) for lane, weight in weights.items()}


def _instance_of(worker_id: str) -> str:
    """A name for this process, different from earlier processes on the same host."""
    return f"{worker_id}-{socket.gethostname()[:64]}-{os.getpid()}-{secrets.token_hex(3)}"
