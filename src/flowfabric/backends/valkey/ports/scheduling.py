"""SchedulingPort on Valkey: grants, blocks and due delays."""

from __future__ import annotations

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import Fields, Value
from flowfabric.backends.valkey.ports.batches import shards_in_turn
from flowfabric.backends.valkey.ports.leases import reclaim_cap_exceeded
from flowfabric.backends.valkey.ports.limits.admission_flow import ValkeyAsking, refusal_of
from flowfabric.backends.valkey.rows.limit_records import Offer
from flowfabric.core import capability
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId
from flowfabric.core.partition import PartitionKey
from flowfabric.errors import BackendUnavailable, Conflict, FlowFabricError, Limited, NotFound

# How many executions refused by their limits one call may skip.
_TRIES = 16


class ValkeyScheduling(ValkeyAsking):
    """Grants, blocks and delays."""

    _turns: dict[LaneId, int]

    async def issue_claim_grant(self, args: c.IssueClaimGrantArgs) -> c.IssueClaimGrantResult:
        fields = await self._caller.call_execution("issue_claim_grant", args.execution_id, **_grant_args(args))
        if refused := await self._refused(args.execution_id.tag, fields):
            raise refused
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

    async def claim_for_worker(self, args: c.ClaimForWorkerArgs) -> c.ClaimForWorkerOutcome:
        for shard in shards_in_turn(self._turns, args.lane_id, self.partitions):
            for _ in range(_TRIES):
                fields = await self._caller.call_partition(
                    "claim_for_worker",
                    shard.tag,
                    lane_id=args.lane_id,
                    worker_id=args.worker_id,
                    worker_instance_id=args.worker_instance_id,
                    worker_capabilities_csv=capability.to_csv(args.worker_capabilities),
                    grant_ttl_ms=args.grant_ttl_ms,
                )
                if not fields.text(0):
                    break
                if not await self._refused(shard.tag, fields):
                    return c.WorkGranted(grant=_claim_grant(ExecutionId(fields.text(0)), fields.number(1)))
        return c.NoWork()

    async def _refused(self, tag: str, granted: Fields) -> FlowFabricError | None:
        """Ask the limits of the granted execution, if it has any; a refused grant is taken back."""
        if len(granted.values) < 3:
            return None
        offer = Offer.read(Fields(granted.operation, granted.status, granted.values[2]))  # type: ignore[arg-type]
        answers = await self._whole.ask_limits(tag, [offer])
        if answers.admitted:
            return None
        if answers.refused:
            return refusal_of(answers.refused[0])
        await self._whole.return_offers(tag, [offer])
        return BackendUnavailable(f"{granted.operation} {offer.execution_id}: a limit of it did not answer in time")

    async def scan_eligible_executions(self, args: c.ScanEligibleArgs) -> list[ExecutionId]:
        fields = await self._caller.call_partition(
            "scan_eligible_executions", args.partition.tag, lane_id=args.lane_id, limit=args.limit
        )
        return [ExecutionId(text) for text in fields.texts(0)]

    async def block_route(self, args: c.BlockRouteArgs) -> c.BlockRouteOutcome:
        try:
            await self._caller.call_execution(
                "block_execution_for_admission",
                args.execution_id,
                blocking_reason=args.reason_code,
                blocking_detail=args.reason_detail,
            )
        except (Conflict, NotFound) as error:
            return c.RouteBlockRejected(message=error.code)
        return c.RouteBlocked(execution_id=args.execution_id)


def _claim_grant(execution_id: ExecutionId, expires_at_ms: int) -> c.ClaimGrant:
    return c.ClaimGrant(
        execution_id=execution_id,
        partition_key=PartitionKey(execution_id.tag),
        grant_key=keys.claim_grant(execution_id),
        expires_at_ms=expires_at_ms,
    )


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
