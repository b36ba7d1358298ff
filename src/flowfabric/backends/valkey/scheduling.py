"""SchedulingPort on Valkey: grants, blocks, due delays, and the state of a lane."""

from __future__ import annotations

from flowfabric.backends.valkey import keys
from flowfabric.backends.valkey.calls import FunctionCaller, Value, at_once
from flowfabric.backends.valkey.leases import reclaim_cap_exceeded
from flowfabric.core import capability
from flowfabric.core import contracts as c
from flowfabric.core.partition import Partition, PartitionConfig, PartitionFamily, PartitionKey
from flowfabric.errors import Conflict, Limited


class ValkeyScheduling:
    """Who may start what, and when."""

    _caller: FunctionCaller
    partitions: PartitionConfig

    async def issue_claim_grant(self, args: c.IssueClaimGrantArgs) -> c.IssueClaimGrantResult:
        fields = await self._caller.call_execution("issue_claim_grant", args.execution_id, **_grant_args(args))
        return c.ClaimGrantIssued(execution_id=args.execution_id, expires_at_ms=fields.number(1))

    async def issue_reclaim_grant(self, args: c.IssueReclaimGrantArgs) -> c.IssueReclaimGrantResult:
        try:
            fields = await self._caller.call_execution(
                "issue_reclaim_grant", args.execution_id, **_grant_args(args), end_at_cap="1"
            )
        except (Conflict, Limited) as error:
            if error.code == "execution_not_reclaimable":
                return c.NotReclaimable(execution_id=args.execution_id, detail=error.message)
            if error.code == "max_retries_exhausted":
                return reclaim_cap_exceeded(args.execution_id, error)
            raise
        grant = c.ReclaimGrant(
            execution_id=args.execution_id,
            partition_key=PartitionKey(args.execution_id.tag),
            grant_key=keys.claim_grant(args.execution_id),
            expires_at_ms=fields.number(1),
            lane_id=args.lane_id,
        )
        return c.ReclaimGrantIssued(grant=grant)

    async def block_execution_for_admission(self, args: c.BlockExecutionArgs) -> c.BlockExecutionResult:
        await self._caller.call_execution(
            "block_execution_for_admission",
            args.execution_id,
            blocking_reason=args.blocking_reason,
            blocking_detail=args.blocking_detail,
        )
        return c.ExecutionBlocked()

    async def unblock_execution(self, args: c.UnblockExecutionArgs) -> c.UnblockExecutionResult:
        await self._caller.call_execution(
            "unblock_execution",
            args.execution_id,
            now_ms=0,
            expected_blocking_reason=args.expected_blocking_reason,
        )
        return c.ExecutionUnblocked()

    async def promote_delayed(self, args: c.PromoteDelayedArgs) -> c.PromoteDelayedResult:
        fields = await self._caller.call_execution("promote_delayed", args.execution_id)
        match fields.text(0):
            case "promoted":
                return c.DelayedPromoted()
            case "not_yet_due":
                return c.NotYetDue()
            case other:
                return c.NothingToPromote(reason=other)

    async def set_lane_state(self, args: c.SetLaneStateArgs) -> c.SetLaneStateResult:
        """One call a partition, since each partition of a lane may live on another node."""
        tags = [Partition(PartitionFamily.FLOW, index).tag for index in range(self.partitions.num_flow_partitions)]
        named = [{"lane_config": keys.lane_config(tag, args.lane_id)} for tag in tags]
        await at_once(
            self._caller.call("set_lane_state", each, {"state": args.state}, subject=args.lane_id) for each in named
        )
        return c.LaneStateSet(partitions=len(tags))


def _grant_args(args: c.GrantRequest) -> dict[str, Value]:
    return {
        "worker_id": args.worker_id,
        "worker_instance_id": args.worker_instance_id,
        "lane_id": args.lane_id,
        "capability_hash": args.capability_hash,
        "grant_ttl_ms": args.grant_ttl_ms,
        "route_snapshot_json": args.route_snapshot_json,
        "admission_summary": args.admission_summary,
        "worker_capabilities_csv": capability.to_csv(args.worker_capabilities),
    }
