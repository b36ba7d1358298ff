"""Clients, workers and engines that are killed between any two calls, or between a call and its answer."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.library.calls import FunctionCaller
from flowfabric.backends.valkey.library.contract import FunctionSpec
from flowfabric.backends.valkey.library.loader import Library
from flowfabric.backends.valkey.wire.client import Reply
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import WorkerId, WorkerInstanceId
from flowfabric.core.partition import Partition
from flowfabric.errors import FlowFabricError
from tests.conformance.driver import LANE

LEASE_MS = 1_000
# It was cancelled meanwhile, or its lease ran out while others were busy.
TOO_LATE = ("execution_not_active", "lease_expired", "stale_lease")


class Killed(Exception):
    """The process is gone, and all it knew."""


class MortalLibrary(Library):
    """A function that was called has been carried out or not: whoever called it does not live to know."""

    def __init__(self, library: Library, rng: random.Random, risk: float) -> None:
        super().__init__(library.client, library.bundle)
        self._random = rng
        self._risk = risk

    async def invoke(
        self,
        spec: FunctionSpec,
        keys: Sequence[str],
        args: Sequence[str | bytes | int],
        namespaces: Sequence[str] | None = None,
    ) -> Reply:
        dies = self._random.random() < self._risk
        if dies and self._random.random() < 0.5:
            raise Killed
        reply = await super().invoke(spec, keys, args, namespaces)
        if dies:
            raise Killed
        return reply


def mortal(backend: ValkeyBackend, rng: random.Random, risk: float) -> ValkeyBackend:
    """The same store, seen by a process that may die with each call."""
    other = copy.copy(backend)
    other._caller = FunctionCaller(MortalLibrary(backend._library, rng, risk), backend.partitions)
    return other


class MortalWorker:
    """Claims, and ends each with what is planned for its kind, in the same call that asks for more."""

    def __init__(self, backend: ValkeyBackend, partition: Partition, number: int, failing: frozenset[str]) -> None:
        self._backend = backend
        self._partition = partition
        self._name = f"worker-{number}"
        self._failing = failing
        self._held: list[b.ClaimedWork] = []

    async def round(self, count: int) -> int:
        """End some of what it has and ask for so many; how many it got."""
        ending, self._held = self._held[: count + 1], self._held[count + 1 :]
        args = b.FinishExecutionsArgs(
            partition=self._partition,
            finish=tuple(self._ending(work) for work in ending),
            claim=b.ClaimExecutionsArgs(
                lane_id=LANE,
                worker_id=WorkerId("worker"),
                worker_instance_id=WorkerInstanceId(self._name),
                lease_ttl_ms=LEASE_MS,
                count=count,
            ),
        )
        result = await self._backend.finish_executions(args)
        for outcome in result.finished:
            if isinstance(outcome, FlowFabricError) and outcome.code not in TOO_LATE:
                raise outcome
        self._held += result.claimed
        return len(result.claimed) + len(self._held)

    def _ending(self, work: b.ClaimedWork) -> b.FinishArgs:
        if work.execution_kind in self._failing:
            return c.FailExecutionArgs(
                execution_id=work.execution_id,
                fence=work.fence,
                failure_reason="as planned",
                failure_category="tests",
                retry_policy_json="",
            )
        return c.CompleteExecutionArgs(execution_id=work.execution_id, fence=work.fence, result_payload=b"r")
