"""The embedded server with the batch surface in place of single calls: calls made at the same time travel together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar, TypeVar

from flowfabric.backends.batching import Gatherer
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import ExecutionId
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.errors import FlowFabricError
from tests.stores.embedded import EmbeddedStore

T = TypeVar("T")


def partition_of(execution_id: ExecutionId) -> Partition:
    return Partition(PartitionFamily.FLOW, execution_id.partition_index)


def only(outcomes: list[T | FlowFabricError]) -> T:
    (outcome,) = outcomes
    if isinstance(outcome, FlowFabricError):
        raise outcome
    return outcome


class BatchedBackend(ValkeyBackend):
    """A store whose life cycle runs over submit, claim and finish."""

    @cached_property
    def gatherer(self) -> Gatherer:
        return Gatherer(self)

    async def create_execution(self, args: c.CreateExecutionArgs) -> c.CreateExecutionResult:
        return await self.gatherer.submit(args)

    async def issue_grant_and_claim(self, args: c.IssueGrantAndClaimArgs) -> c.IssueGrantAndClaimResult:
        request = b.ClaimExecutionsArgs(
            partition=partition_of(args.execution_id),
            lane_id=args.lane_id,
            worker_id=args.worker_id,
            worker_instance_id=args.worker_instance_id,
            lease_ttl_ms=args.lease_ttl_ms,
            worker_capabilities=args.worker_capabilities,
            attempt_timeout_ms=args.attempt_timeout_ms,
            execution_ids=(args.execution_id,),
        )
        return only(await self.claim_executions(request)).claim

    async def complete_execution(self, args: c.CompleteExecutionArgs) -> c.CompleteExecutionResult:
        result = await self.gatherer.finish(args)
        assert isinstance(result, c.ExecutionCompleted)
        return result

    async def fail_execution(self, args: c.FailExecutionArgs) -> c.FailExecutionResult:
        result = await self.gatherer.finish(args)
        assert not isinstance(result, c.ExecutionCompleted)
        return result

    async def renew_lease(self, args: c.RenewLeaseArgs) -> c.RenewLeaseResult:
        return await self.gatherer.renew(args)

    async def close(self) -> None:
        await self.gatherer.close()
        await super().close()


class BatchedStore(EmbeddedStore):
    name = "batched"
    nth_life: ClassVar[int] = 2
    lacks: ClassVar[Mapping[str, str]] = {"chosen_ids": "a claim of several executions makes the ids itself"}
    backend = BatchedBackend


STORE = BatchedStore
