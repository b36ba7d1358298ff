"""One lease by hand: for programs that take grants from a scheduler and drive an attempt themselves.

`Worker` does all of this by itself. Here the caller claims, ends the attempt once, and is told when the lease is gone.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.ids import AttemptId, ExecutionId, LaneId, LeaseId, WorkerId, WorkerInstanceId
from flowfabric.errors import Conflict, FlowFabricError, InvalidInput, NotFound, Unavailable
from flowfabric.worker.attempt import UNHEALTHY_AFTER

T = TypeVar("T")

_logger: Final = logging.getLogger("flowfabric.worker")


class Claims:
    """Uses grants in the name of one worker instance. With `renew` the leases are renewed until they are given up."""

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
        """Start a new attempt with the grant, or go on with the interrupted one if there is one."""
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
        """Go on with the interrupted attempt that the grant is for."""
        args = c.ClaimResumedExecutionArgs(**self._request(grant.execution_id, grant.lane_id))
        claimed = await self._backend.claim_resumed_execution(args)
        return await self._task(grant.lane_id, claimed.execution_id, claimed.attempt_index, claimed.fence)

    async def claim_from_reclaim_grant(
        self, grant: c.ReclaimGrant, *, max_reclaim_count: int | None = None
    ) -> ClaimedTask | c.NotReclaimable | c.ReclaimCapExceeded | c.GrantNotFound:
        """Replace the attempt whose lease was lost; the other outcomes have changed nothing, or ended it at the cap."""
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


class ClaimedTask:
    """An attempt that its holder drives. It is ended once; after that every call is refused here already."""

    def __init__(
        self,
        backend: EngineBackend,
        execution_id: ExecutionId,
        attempt_index: int,
        fence: c.LeaseFence,
        lane_id: LaneId,
        context: c.ExecutionContext,
        lease_ttl_ms: int,
    ) -> None:
        self._ended = False  # before anything can fail: __del__ reads it
        self._renewal: asyncio.Task[None] | None = None
        self._backend = backend
        self._context = context
        self._lease_ttl_ms = lease_ttl_ms
        self._failures = 0
        self._lost: FlowFabricError | None = None
        self.execution_id = execution_id
        self.attempt_index = attempt_index
        self.fence = fence
        self.lane_id = lane_id

    @property
    def attempt_id(self) -> AttemptId:
        return self.fence.attempt_id

    @property
    def lease_id(self) -> LeaseId:
        return self.fence.lease_id

    @property
    def lease_epoch(self) -> int:
        return self.fence.lease_epoch

    @property
    def input_payload(self) -> bytes:
        return self._context.input_payload

    @property
    def execution_kind(self) -> str:
        return self._context.execution_kind

    @property
    def tags(self) -> dict[str, str]:
        return dict(self._context.tags)

    @property
    def is_lease_healthy(self) -> bool:
        """Look at it before anything that cannot be undone: False once the lease is lost, or three renewals failed."""
        return self._lost is None and self._failures < UNHEALTHY_AFTER

    @property
    def consecutive_renewal_failures(self) -> int:
        return self._failures

    async def complete(
        self, result_payload: bytes | None = None, *, result_encoding: str | None = None
    ) -> c.CompleteExecutionResult:
        """active -> completed."""
        args = c.CompleteExecutionArgs(
            execution_id=self.execution_id,
            fence=self.fence,
            result_payload=result_payload,
            result_encoding=result_encoding,
        )
        return await self._end(self._backend.complete_execution(args))

    async def fail(
        self, reason: str, category: str = "error", *, retry_delay_ms: int | None = None
    ) -> c.FailExecutionResult:
        """active -> delayed until the retry, or failed; the policy decides."""
        args = c.FailExecutionArgs(
            execution_id=self.execution_id,
            fence=self.fence,
            failure_reason=reason,
            failure_category=category,
            retry_delay_ms=retry_delay_ms,
        )
        return await self._end(self._backend.fail_execution(args))

    async def cancel(self, reason: str) -> c.CancelExecutionResult:
        """active -> cancelled."""
        args = c.CancelExecutionArgs(execution_id=self.execution_id, fence=self.fence, reason=reason)
        return await self._end(self._backend.cancel_execution(args))

    async def delay_execution(self, delay_until: int) -> c.DelayExecutionResult:
        """active -> delayed; the same attempt goes on later."""
        args = c.DelayExecutionArgs(execution_id=self.execution_id, fence=self.fence, delay_until=delay_until)
        return await self._end(self._backend.delay_execution(args))

    async def move_to_waiting_children(self) -> c.MoveToWaitingChildrenResult:
        """active -> waiting_children."""
        args = c.MoveToWaitingChildrenArgs(execution_id=self.execution_id, fence=self.fence)
        return await self._end(self._backend.move_to_waiting_children(args))

    async def renew_lease(self) -> c.RenewLeaseResult:
        """Keep the lease for another `lease_ttl_ms`."""
        self._check_open()
        args = c.RenewLeaseArgs(
            execution_id=self.execution_id,
            attempt_index=self.attempt_index,
            fence=self.fence,
            lease_ttl_ms=self._lease_ttl_ms,
        )
        try:
            result = await self._backend.renew_lease(args)
        except FlowFabricError as error:
            self._failures += 1
            if isinstance(error, Conflict | NotFound):
                self._lost = error
            raise
        self._failures = 0
        return result

    async def update_progress(self, pct: int | None = None, message: str | None = None) -> c.UpdateProgressResult:
        self._check_open()
        return await self._backend.update_progress(
            c.UpdateProgressArgs(
                execution_id=self.execution_id, fence=self.fence, progress_pct=pct, progress_message=message
            )
        )

    def start_renewal(self) -> None:
        """Renew in the background, three times within the life of the lease, until it is ended or lost."""
        if self._renewal is None:
            self._renewal = asyncio.create_task(_renew(weakref.ref(self), self._lease_ttl_ms / 3000))

    def stop_renewal(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None

    async def _end(self, call: Coroutine[Any, Any, T]) -> T:
        """An end that the store has answered is the end, even a refusal; after a lost connection it can be repeated."""
        try:
            self._check_open()
        except InvalidInput:
            call.close()
            raise
        try:
            result = await call
        except FlowFabricError as error:
            if not isinstance(error, Unavailable):
                self._finish()
            raise
        self._finish()
        return result

    def _finish(self) -> None:
        self._ended = True
        self.stop_renewal()

    def _check_open(self) -> None:
        if self._ended:
            raise InvalidInput("task", self.execution_id, "has been ended; claim it again to go on")

    def __del__(self) -> None:
        if not self._ended:
            _logger.warning("%s was dropped without an end; its lease will expire", self.execution_id)
        if self._renewal is not None and not self._renewal.get_loop().is_closed():
            self._renewal.cancel()


async def _renew(task: weakref.ref[ClaimedTask], every_s: float) -> None:
    """Renew while somebody has the task; it does not keep the task alive, so that a dropped one is noticed."""
    while True:
        await asyncio.sleep(every_s)
        held = task()
        if held is None or held._lost is not None:
            return
        try:
            await held.renew_lease()
        except FlowFabricError as error:
            _logger.warning("the lease of %s was not renewed: %s", held.execution_id, error)
        del held
