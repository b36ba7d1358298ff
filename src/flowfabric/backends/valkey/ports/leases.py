"""LeasePort on Valkey: claims, renewals, and what happens to lost leases."""

from __future__ import annotations

from typing import NamedTuple

from flowfabric.backends.valkey.library.calls import Fields, Value
from flowfabric.backends.valkey.ports.executions import fence_args
from flowfabric.backends.valkey.ports.limits.admission_flow import ValkeyAsking
from flowfabric.core import capability
from flowfabric.core import contracts as c
from flowfabric.core.ids import AttemptId, ExecutionId, LeaseId
from flowfabric.core.lease_handle import BackendTag, Handle, HandleKind, HandlePayload, encode_handle
from flowfabric.core.states import AttemptType
from flowfabric.errors import Conflict, FlowFabricError, Limited


class ValkeyLeases(ValkeyAsking):
    """Leases of running attempts: claim, renew, revoke, reclaim."""

    async def claim_execution(self, args: c.ClaimExecutionArgs) -> c.ClaimExecutionResult:
        fields = await self._caller.call_execution(
            "claim_execution",
            args.execution_id,
            **_request(args),
            renew_before_ms=args.lease_ttl_ms * 2 // 3,
            attempt_id=args.attempt_id,
            attempt_policy_json=args.attempt_policy_json,
            attempt_timeout_ms=args.attempt_timeout_ms,
            execution_deadline_at=args.execution_deadline_at,
        )
        return _claimed(args, _given(fields), fields.text(5))

    async def claim_resumed_execution(self, args: c.ClaimResumedExecutionArgs) -> c.ClaimResumedExecutionResult:
        fields = await self._caller.call_execution(
            "claim_resumed_execution",
            args.execution_id,
            **_request(args),
            remaining_attempt_timeout_ms=args.remaining_attempt_timeout_ms,
        )
        return _resumed(args, _given(fields))

    async def issue_grant_and_claim(self, args: c.IssueGrantAndClaimArgs) -> c.IssueGrantAndClaimResult:
        try:
            fields = await self._claim_in_one_step(args)
        except Conflict as error:
            if error.details.get("state") != "admission_required":
                raise
            offer = await self._whole.offer_named(args)
            try:
                fields = await self._claim_in_one_step(args, ticket=offer.ticket)
            except FlowFabricError:
                await self._whole.return_offers(args.execution_id.tag, [offer])
                raise
        given = _Given(fields.number(1), fields.number(4), fields.number(2), fields.text(3))
        kind = fields.text(5)
        return _resumed(args, given) if kind == "resumed" else _claimed(args, given, kind)

    async def _claim_in_one_step(self, args: c.IssueGrantAndClaimArgs, *, ticket: int | None = None) -> Fields:
        return await self._caller.call_execution(
            "issue_grant_and_claim",
            args.execution_id,
            **_request(args),
            capability_hash=args.capability_hash,
            attempt_id=args.attempt_id,
            attempt_policy_json=args.attempt_policy_json,
            attempt_timeout_ms=args.attempt_timeout_ms,
            execution_deadline_at=args.execution_deadline_at,
            worker_capabilities_csv=capability.to_csv(args.worker_capabilities),
            admitted=None if ticket is None else "1",
            ticket=ticket,
        )

    async def reclaim_execution(self, args: c.ReclaimExecutionArgs) -> c.ReclaimExecutionResult:
        try:
            fields = await self._caller.call_execution(
                "reclaim_execution",
                args.execution_id,
                **_request(args),
                attempt_id=args.attempt_id,
                attempt_policy_json=args.attempt_policy_json,
                default_max_reclaim_count=args.max_reclaim_count,
            )
        except (Conflict, Limited) as error:
            return _not_reclaimed(args, error)
        given = _given(fields)
        return c.ReclaimedExecution(
            execution_id=args.execution_id,
            new_attempt_index=given.attempt_index,
            new_attempt_id=args.attempt_id,
            new_lease_id=args.lease_id,
            new_lease_epoch=given.epoch,
            lease_expires_at=given.expires_at,
            handle=_handle(args, HandleKind.RECLAIMED, given),
        )

    async def renew_lease(self, args: c.RenewLeaseArgs) -> c.RenewLeaseResult:
        fields = await self._caller.call_execution(
            "renew_lease",
            args.execution_id,
            attempt_index=args.attempt_index,
            **fence_args(args.fence),
            lease_ttl_ms=args.lease_ttl_ms,
            lease_history_grace_ms=args.lease_history_grace_ms,
        )
        return c.LeaseRenewed(expires_at=fields.number(0))

    async def mark_lease_expired_if_due(self, args: c.MarkLeaseExpiredArgs) -> c.MarkLeaseExpiredResult:
        fields = await self._caller.call_execution("mark_lease_expired_if_due", args.execution_id)
        if fields.status == "ALREADY_SATISFIED":
            return c.LeaseAlreadySatisfied(reason=fields.text(0))
        return c.LeaseMarkedExpired()

    async def revoke_lease(self, args: c.RevokeLeaseArgs) -> c.RevokeLeaseResult:
        fields = await self._caller.call_execution(
            "revoke_lease",
            args.execution_id,
            expected_lease_id=args.expected_lease_id,
            revoke_reason=args.reason,
        )
        if fields.status == "ALREADY_SATISFIED":
            return c.LeaseAlreadySatisfied(reason=fields.text(0))
        return c.LeaseRevocation(lease_id=LeaseId(fields.text(1)), lease_epoch=fields.number(2))


def _request(args: c.LeaseRequest) -> dict[str, Value]:
    """The worker that asks for the lease, and its duration."""
    return {
        "worker_id": args.worker_id,
        "worker_instance_id": args.worker_instance_id,
        "lane_id": args.lane_id,
        "lease_id": args.lease_id,
        "lease_ttl_ms": args.lease_ttl_ms,
    }


class _Given(NamedTuple):
    """The lease as the store granted it."""

    epoch: int
    expires_at: int
    attempt_index: int
    attempt_id: str


def _given(fields: Fields) -> _Given:
    return _Given(fields.number(1), fields.number(2), fields.number(4), fields.text(3))


def _not_reclaimed(args: c.ReclaimExecutionArgs, error: Conflict | Limited) -> c.ReclaimExecutionResult:
    """Turn the expected refusals of reclaim into outcomes; at the cap the execution has ended (D10)."""
    match error.code:
        case "execution_not_reclaimable":
            return c.NotReclaimable(execution_id=args.execution_id, detail=error.message)
        case "max_retries_exhausted":
            return reclaim_cap_exceeded(args.execution_id, error)
        case "invalid_claim_grant":
            return c.GrantNotFound(execution_id=args.execution_id)
        case _:
            raise error


def reclaim_cap_exceeded(execution_id: ExecutionId, error: Limited | Conflict) -> c.ReclaimCapExceeded:
    return c.ReclaimCapExceeded(
        execution_id=execution_id, reclaim_count=int(str(error.details.get("max_reclaim_count") or 0))
    )


def _claimed(args: c.LeaseRequest, given: _Given, kind: str) -> c.ClaimedExecution:
    return c.ClaimedExecution(
        execution_id=args.execution_id,
        lease_id=args.lease_id,
        lease_epoch=given.epoch,
        attempt_index=given.attempt_index,
        attempt_id=AttemptId(given.attempt_id),
        attempt_type=AttemptType(kind),
        lease_expires_at=given.expires_at,
        handle=_handle(args, HandleKind.FRESH, given),
    )


def _resumed(args: c.LeaseRequest, given: _Given) -> c.ClaimedResumedExecution:
    return c.ClaimedResumedExecution(
        execution_id=args.execution_id,
        lease_id=args.lease_id,
        lease_epoch=given.epoch,
        attempt_index=given.attempt_index,
        attempt_id=AttemptId(given.attempt_id),
        lease_expires_at=given.expires_at,
        handle=_handle(args, HandleKind.RESUMED, given),
    )


def _handle(args: c.LeaseRequest, kind: HandleKind, given: _Given) -> Handle:
    payload = HandlePayload(
        execution_id=args.execution_id,
        attempt_index=given.attempt_index,
        attempt_id=AttemptId(given.attempt_id),
        lease_id=args.lease_id,
        lease_epoch=given.epoch,
        lease_ttl_ms=args.lease_ttl_ms,
        lane_id=args.lane_id,
        worker_instance_id=args.worker_instance_id,
    )
    return encode_handle(BackendTag.VALKEY, kind, payload)
