"""Claim attempts by hand, for programs that get grants from a scheduler. `Worker` does this by itself."""

from __future__ import annotations

from typing import Any

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.ids import AttemptId, ExecutionId, LaneId, LeaseId, WorkerId, WorkerInstanceId
from flowfabric.errors import Conflict
from flowfabric.worker.manual.task import ClaimedTask


class Claims:
    """Uses grants for one worker instance. With `renew`, leases are renewed in the background until the task ends."""

    def __init__(
        self,
        backend: EngineBackend,
        *,
        worker_id: WorkerId,
        worker_instance_id: WorkerInstanceId,
        lease_ttl_ms: int = 30_000,
        renew: bool = True,
    ) -> None:
        self._backend = backend
        self._worker_id = worker_id
        self._worker_instance_id = worker_instance_id
        self._lease_ttl_ms = lease_ttl_ms
        self._renew = renew

    async def claim_from_grant(self, lane_id: LaneId, grant: c.ClaimGrant) -> ClaimedTask:
        """Start a new attempt with the grant, or resume the interrupted one."""
        request = self._request(grant.execution_id, lane_id)
        claimed: c.ClaimedExecution | c.ClaimedResumedExecution
        try:
            claimed = await self._backend.claim_execution(c.ClaimExecutionArgs(**request, attempt_id=AttemptId.new()))
        except Conflict as error:
            if error.code != "use_claim_resumed_execution":
                raise
            claimed = await self._backend.claim_resumed_execution(c.ClaimResumedExecutionArgs(**request))
        return await self._task(lane_id, claimed.execution_id, claimed.attempt_index, claimed.fence)

    async def claim_from_resume_grant(self, grant: c.ResumeGrant) -> ClaimedTask:
        """Resume the interrupted attempt that the grant is for."""
        args = c.ClaimResumedExecutionArgs(**self._request(grant.execution_id, grant.lane_id))
        claimed = await self._backend.claim_resumed_execution(args)
        return await self._task(grant.lane_id, claimed.execution_id, claimed.attempt_index, claimed.fence)

    async def claim_from_reclaim_grant(
        self, grant: c.ReclaimGrant, *, max_reclaim_count: int | None = None
    ) -> ClaimedTask | c.NotReclaimable | c.ReclaimCapExceeded | c.GrantNotFound:
        """Replace the attempt whose lease was lost.

        ReclaimCapExceeded: the execution has ended. NotReclaimable and GrantNotFound: nothing changed.
        """
        request = self._request(grant.execution_id, grant.lane_id)
        result = await self._backend.reclaim_execution(
            c.ReclaimExecutionArgs(**request, attempt_id=AttemptId.new(), max_reclaim_count=max_reclaim_count)
        )
        if not isinstance(result, c.ReclaimedExecution):
            return result
        return await self._task(grant.lane_id, result.execution_id, result.new_attempt_index, result.fence)

    def _request(self, execution_id: ExecutionId, lane_id: LaneId) -> dict[str, Any]:
        return {
            "execution_id": execution_id,
            "lane_id": lane_id,
            "worker_id": self._worker_id,
            "worker_instance_id": self._worker_instance_id,
            "lease_id": LeaseId.new(),
            "lease_ttl_ms": self._lease_ttl_ms,
        }

    async def _task(
        self, lane_id: LaneId, execution_id: ExecutionId, attempt_index: int, fence: c.LeaseFence
    ) -> ClaimedTask:
        context = await self._backend.read_execution_context(execution_id)
        task = ClaimedTask(self._backend, execution_id, attempt_index, fence, lane_id, context, self._lease_ttl_ms)
        if self._renew:
            task.start_renewal()
        return task
