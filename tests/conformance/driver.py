"""Bringing an execution into any situation, through the ports."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import (
    AttemptId,
    EdgeId,
    ExecutionId,
    FlowId,
    LaneId,
    LeaseId,
    Namespace,
    WorkerId,
    WorkerInstanceId,
)
from flowfabric.core.partition import Partition, lane_partitions
from flowfabric.core.policy import ExecutionPolicy, FixedBackoff, RetryPolicy
from flowfabric.core.rules.execution.transitions import Situation
from flowfabric.core.states import BlockingReason, StateVector
from tests.stores.probe import Probe

LANE = LaneId("default")
WORKER, INSTANCE = WorkerId("worker"), WorkerInstanceId("worker-1")
TTL = 30_000
ATTEMPT_TIMEOUT = 20_000
DEADLINE_IN = 3_600_000
BACKOFF = 5_000
RETRIES_JSON = f'{{"max_retries":100,"backoff":{{"type":"fixed","delay_ms":{BACKOFF}}}}}'
RETRYING = ExecutionPolicy(retry_policy=RetryPolicy(max_retries=100, backoff=FixedBackoff(delay_ms=BACKOFF)))


def made_up_fence() -> c.LeaseFence:
    return c.LeaseFence(lease_id=LeaseId.new(), lease_epoch=1, attempt_id=AttemptId.new())


@dataclass
class Subject:
    """One execution under test and the fence of whoever holds it or held it last."""

    execution_id: ExecutionId
    fence: c.LeaseFence = field(default_factory=made_up_fence)
    attempt_index: int = 0
    attempted: bool = False
    waitpoint: c.IssuedWaitpoint | None = None  # where it waits, or waited last
    pending: c.PendingWaitpointCreated | None = None  # one that was made ahead of a wait
    flow_id: FlowId | None = None
    upstream: Subject | None = None  # another member of its flow, from which an edge leads to it
    edge_id: EdgeId | None = None


class Driver:
    """A worker, an operator and an engine in one, on a store whose clock we hold."""

    def __init__(self, probe: Probe, backend: EngineBackend | None = None) -> None:
        """On the probe's own client, or on another one of the same store."""
        self.probe = probe
        self.backend = backend or probe.backend
        self.clock = probe.clock

    def mint(self, lane: LaneId = LANE) -> ExecutionId:
        return ExecutionId.deterministic_for_lane(lane, self.backend.partitions, str(uuid.uuid4()))

    async def create(self, **overrides: Any) -> Subject:
        """A waiting execution with a deadline far away."""
        return Subject((await self.submit(**overrides)).execution_id)

    async def submit(self, **overrides: Any) -> c.CreateExecutionResult:
        args: dict[str, Any] = {
            "execution_id": self.mint(overrides.get("lane_id", LANE)),
            "namespace": Namespace("tests"),
            "lane_id": LANE,
            "execution_kind": "kind",
            "creator_identity": "tests",
            "execution_deadline_at": self.clock.now_ms + DEADLINE_IN,
            **overrides,
        }
        return await self.backend.create_execution(c.CreateExecutionArgs(**args))

    async def configure(self, **settings: Any) -> c.ConfigureLaneResult:
        """Settings of the lane; what is not given is not limited."""
        return await self.backend.configure_lane(c.ConfigureLaneArgs(**{"lane_id": LANE, **settings}))

    async def take(self, count: int = 1, **overrides: Any) -> list[Subject]:
        """What a worker of the lane gets when it asks for so many."""
        args: dict[str, Any] = {
            "lane_id": LANE, "worker_id": WORKER, "worker_instance_id": INSTANCE, "lease_ttl_ms": TTL, "count": count,
            **overrides,
        }  # fmt: skip
        works = await self.backend.claim_executions(b.ClaimExecutionsArgs(**args))
        return [self.held(work) for work in works]

    def held(self, work: b.ClaimOutcome) -> Subject:
        """The execution of a claim that succeeded."""
        assert isinstance(work, b.ClaimedWork), work
        claim = work.claim
        return Subject(claim.execution_id, claim.fence, claim.attempt_index, attempted=True)

    async def grant(self, x: Subject, **overrides: Any) -> c.IssueClaimGrantResult:
        args: dict[str, Any] = {
            "execution_id": x.execution_id, "lane_id": LANE, "worker_id": WORKER, "worker_instance_id": INSTANCE,
            "grant_ttl_ms": 5_000, **overrides,
        }  # fmt: skip
        return await self.backend.issue_claim_grant(c.IssueClaimGrantArgs(**args))

    async def claim(self, x: Subject, **overrides: Any) -> c.ClaimedExecution:
        claimed = await self.backend.claim_execution(self.claim_args(x, **overrides))
        return self._owned(x, claimed)

    def claim_args(self, x: Subject, **overrides: Any) -> c.ClaimExecutionArgs:
        args: dict[str, Any] = {
            "execution_id": x.execution_id, "worker_id": WORKER, "worker_instance_id": INSTANCE, "lane_id": LANE,
            "lease_id": LeaseId.new(), "lease_ttl_ms": TTL, "attempt_id": AttemptId.new(),
            "attempt_timeout_ms": ATTEMPT_TIMEOUT, **overrides,
        }  # fmt: skip
        return c.ClaimExecutionArgs(**args)

    async def claim_resumed(self, x: Subject, **overrides: Any) -> c.ClaimedResumedExecution:
        args: dict[str, Any] = {
            "execution_id": x.execution_id, "worker_id": WORKER, "worker_instance_id": INSTANCE, "lane_id": LANE,
            "lease_id": LeaseId.new(), "lease_ttl_ms": TTL, **overrides,
        }  # fmt: skip
        return self._owned(x, await self.backend.claim_resumed_execution(c.ClaimResumedExecutionArgs(**args)))

    async def grant_and_claim(self, x: Subject, **overrides: Any) -> c.IssueGrantAndClaimResult:
        return self._owned(x, await self.backend.issue_grant_and_claim(self.one_step_args(x, **overrides)))

    def one_step_args(self, x: Subject, **overrides: Any) -> c.IssueGrantAndClaimArgs:
        args: dict[str, Any] = {
            "execution_id": x.execution_id, "worker_id": WORKER, "worker_instance_id": INSTANCE, "lane_id": LANE,
            "lease_id": LeaseId.new(), "lease_ttl_ms": TTL, "attempt_id": AttemptId.new(),
            "attempt_timeout_ms": ATTEMPT_TIMEOUT, **overrides,
        }  # fmt: skip
        return c.IssueGrantAndClaimArgs(**args)

    async def reclaim_grant(self, x: Subject, **overrides: Any) -> c.IssueReclaimGrantResult:
        args: dict[str, Any] = {
            "execution_id": x.execution_id, "lane_id": LANE, "worker_id": WORKER, "worker_instance_id": INSTANCE,
            "grant_ttl_ms": 5_000, **overrides,
        }  # fmt: skip
        return await self.backend.issue_reclaim_grant(c.IssueReclaimGrantArgs(**args))

    async def reclaim(self, x: Subject, **overrides: Any) -> c.ReclaimExecutionResult:
        args: dict[str, Any] = {
            "execution_id": x.execution_id, "worker_id": WORKER, "worker_instance_id": INSTANCE, "lane_id": LANE,
            "lease_id": LeaseId.new(), "lease_ttl_ms": TTL, "attempt_id": AttemptId.new(), **overrides,
        }  # fmt: skip
        result = await self.backend.reclaim_execution(c.ReclaimExecutionArgs(**args))
        if isinstance(result, c.ReclaimedExecution):
            x.fence = result.fence
            x.attempt_index = result.new_attempt_index
        return result

    async def place_grant(self, x: Subject) -> None:
        """A grant for our worker, whatever the execution's state: claims must look for themselves."""
        await self.probe.place_grant(x.execution_id, WORKER, INSTANCE, self.clock.now_ms + 60_000)

    async def withdraw_grant(self, x: Subject) -> None:
        """As if none had been given; the record says until when one is out."""
        await self.probe.withdraw_grant(x.execution_id)

    async def run(self, x: Subject, **overrides: Any) -> Subject:
        """Grant and claim."""
        await self.grant(x)
        await self.claim(x, **overrides)
        return x

    async def complete(self, x: Subject, **overrides: Any) -> c.CompleteExecutionResult:
        args = {"execution_id": x.execution_id, "fence": x.fence, "result_payload": b"result", **overrides}
        return await self.backend.complete_execution(c.CompleteExecutionArgs(**args))

    async def fail(self, x: Subject, *, retry: bool = False, **overrides: Any) -> c.FailExecutionResult:
        policy = RETRIES_JSON if retry else ""
        args = {
            "execution_id": x.execution_id, "fence": x.fence, "failure_reason": "boom",
            "failure_category": "transient", "retry_policy_json": policy, **overrides,
        }  # fmt: skip
        return await self.backend.fail_execution(c.FailExecutionArgs(**args))

    async def cancel(self, x: Subject, **overrides: Any) -> c.CancelExecutionResult:
        source = c.CancelSource.OPERATOR_OVERRIDE
        args = {"execution_id": x.execution_id, "reason": "enough", "source": source, **overrides}
        return await self.backend.cancel_execution(c.CancelExecutionArgs(**args))

    async def delay(self, x: Subject, until: int, **overrides: Any) -> c.DelayExecutionResult:
        args = {"execution_id": x.execution_id, "fence": x.fence, "delay_until": until, **overrides}
        return await self.backend.delay_execution(c.DelayExecutionArgs(**args))

    async def move_to_waiting_children(self, x: Subject) -> c.MoveToWaitingChildrenResult:
        args = c.MoveToWaitingChildrenArgs(execution_id=x.execution_id, fence=x.fence)
        return await self.backend.move_to_waiting_children(args)

    async def expire(self, x: Subject, reason: c.ExpireReason) -> c.ExpireExecutionResult:
        return await self.backend.expire_execution(
            c.ExpireExecutionArgs(execution_id=x.execution_id, expire_reason=reason)
        )

    async def renew(self, x: Subject, **overrides: Any) -> c.RenewLeaseResult:
        args = {
            "execution_id": x.execution_id, "attempt_index": x.attempt_index, "fence": x.fence, "lease_ttl_ms": TTL,
            **overrides,
        }  # fmt: skip
        return await self.backend.renew_lease(c.RenewLeaseArgs(**args))

    async def mark_expired(self, x: Subject) -> c.MarkLeaseExpiredResult:
        return await self.backend.mark_lease_expired_if_due(c.MarkLeaseExpiredArgs(execution_id=x.execution_id))

    async def revoke(self, x: Subject, **overrides: Any) -> c.RevokeLeaseResult:
        args = {"execution_id": x.execution_id, "reason": "operator", **overrides}
        return await self.backend.revoke_lease(c.RevokeLeaseArgs(**args))

    async def promote(self, x: Subject) -> c.PromoteDelayedResult:
        return await self.backend.promote_delayed(c.PromoteDelayedArgs(execution_id=x.execution_id))

    async def block(self, x: Subject, reason: BlockingReason) -> c.BlockExecutionResult:
        args = c.BlockExecutionArgs(execution_id=x.execution_id, blocking_reason=reason, blocking_detail="because")
        return await self.backend.block_execution_for_admission(args)

    async def unblock(self, x: Subject, expected: BlockingReason | None = None) -> c.UnblockExecutionResult:
        args = c.UnblockExecutionArgs(execution_id=x.execution_id, expected_blocking_reason=expected)
        return await self.backend.unblock_execution(args)

    async def replay(self, x: Subject) -> c.ReplayExecutionResult:
        return await self.backend.replay_execution(c.ReplayExecutionArgs(execution_id=x.execution_id))

    async def retry(self, x: Subject) -> c.RetryExecutionResult:
        return await self.backend.retry_execution(c.RetryExecutionArgs(execution_id=x.execution_id))

    async def fork(self, x: Subject, **overrides: Any) -> c.ForkExecutionResult:
        return await self.backend.fork_execution(c.ForkExecutionArgs(execution_id=x.execution_id, **overrides))

    async def progress(self, x: Subject, **overrides: Any) -> c.UpdateProgressResult:
        args = {"execution_id": x.execution_id, "fence": x.fence, "progress_pct": 10, **overrides}
        return await self.backend.update_progress(c.UpdateProgressArgs(**args))

    async def append(self, x: Subject, payload: bytes = b"frame", **overrides: Any) -> c.AppendFrameResult:
        args = {
            "execution_id": x.execution_id, "attempt_index": x.attempt_index, "fence": x.fence, "frame_type": "token",
            "payload": payload, **overrides,
        }  # fmt: skip
        return await self.backend.append_frame(c.AppendFrameArgs(**args))

    async def change_priority(self, x: Subject, priority: int) -> c.ChangePriorityResult:
        args = c.ChangePriorityArgs(execution_id=x.execution_id, new_priority=priority)
        return await self.backend.change_priority(args)

    async def watch(self, x: Subject, watcher: ExecutionId | None = None) -> c.WatchExecutionResult:
        args = c.WatchExecutionArgs(execution_id=x.execution_id, watcher_id=watcher or self.mint())
        return await self.backend.watch_execution(args)

    async def set_tags(self, x: Subject, **tags: str) -> c.SetExecutionTagsResult:
        named = {name.replace("__", "."): value for name, value in tags.items()}
        args = c.SetExecutionTagsArgs(execution_id=x.execution_id, tags=named)
        return await self.backend.set_execution_tags(args)

    async def info(self, x: Subject) -> c.ExecutionInfo:
        info = await self.backend.get_execution(x.execution_id)
        assert info is not None
        return info

    async def state(self, x: Subject) -> StateVector:
        return (await self.info(x)).state_vector

    async def open_dependency(self, x: Subject) -> None:
        """Make it a member of some flow, with an edge into it that nothing resolves."""
        await self.probe.open_dependency(x.execution_id)

    async def close_dependency(self, x: Subject) -> None:
        await self.probe.close_dependency(x.execution_id)

    def _owned(self, x: Subject, claimed: Any) -> Any:
        x.fence = claimed.fence
        x.attempt_index, x.attempted = claimed.attempt_index, True
        return claimed

    async def reach(self, situation: Situation, **given: Any) -> Subject:
        """A fresh execution in this situation."""
        from tests.conformance.situations import reach  # which knows how to suspend, on top of this module

        return await reach(self, situation, **given)


def home(driver: Driver, lane: LaneId = LANE) -> Partition:
    """The first partition of the lane."""
    return lane_partitions(lane, driver.backend.partitions)[0]
