"""One attempt driven by hand: the caller renews its lease and ends it once. `Worker` does both by itself."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypedDict, TypeVar, Unpack

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.conditions import ResumeCondition
from flowfabric.core.forms import WaitForm
from flowfabric.core.ids import (
    AttemptId,
    ExecutionId,
    LaneId,
    LeaseId,
    SuspensionId,
    WaitpointId,
    WaitpointKey,
)
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.errors import FlowFabricError, InvalidInput, Unavailable
from flowfabric.worker.attempts.failure_details import detail_of
from flowfabric.worker.durable.signal_waits import bindings
from flowfabric.worker.manual.lease import ManualLease

T = TypeVar("T")

_logger: Final = logging.getLogger("flowfabric.worker")

_DAY_MS: Final = 86_400_000


class SuspendOptions(TypedDict, total=False):
    """Further fields of SuspendExecutionArgs."""

    resume_policy: c.ResumePolicy
    reason_code: c.SuspensionReasonCode
    requested_by: c.SuspensionRequester
    timeout_at: int | None
    timeout_ms: int | None
    timeout_behavior: TimeoutBehavior
    continuation_metadata_pointer: str | None
    idempotency_key: str | None
    dedup_ttl_ms: int | None
    form: WaitForm | None


class FrameOptions(TypedDict, total=False):
    """Further fields of AppendFrameArgs."""

    encoding: str | None
    correlation_id: str | None
    source: str | None
    mode: c.StreamMode
    live: c.LiveFrames
    retention_maxlen: int | None
    retention_ms: int | None
    max_payload_bytes: int


class ClaimedTask:
    """An attempt that the caller drives and ends once; every later call raises InvalidInput without a store call."""

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
        self._ended = True  # until everything is set: __del__ reads it
        self._backend = backend
        self._lease = ManualLease(backend, execution_id, attempt_index, fence, lease_ttl_ms)
        self.execution_id: ExecutionId = execution_id
        self.execution_kind: str = context.execution_kind
        self.input_payload: bytes = context.input_payload
        self.tags: dict[str, str] = dict(context.tags)
        self.lane_id: LaneId = lane_id
        self.attempt_index: int = attempt_index
        self.attempt_id: AttemptId = fence.attempt_id
        self.lease_id: LeaseId = fence.lease_id
        self.lease_epoch: int = fence.lease_epoch
        self.fence: c.LeaseFence = fence
        self._ended = False

    @property
    def is_lease_healthy(self) -> bool:
        """Check it before a side effect that cannot be undone: False once the lease is lost, or 3 renewals failed."""
        return self._lease.is_healthy

    @property
    def consecutive_renewal_failures(self) -> int:
        return self._lease.failures

    async def inputs(self) -> list[c.ExecutionInput]:
        """The results of the upstream members in a flow, in the order of the edges; empty outside of flows."""
        return await self._backend.read_execution_inputs(self.execution_id)

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
        self,
        reason: str,
        category: str = "error",
        *,
        retry_delay_ms: int | None = None,
        error: BaseException | None = None,
    ) -> c.FailExecutionResult:
        """active -> delayed until the retry, or failed; the policy decides. The traceback of `error` is kept."""
        args = c.FailExecutionArgs(
            execution_id=self.execution_id,
            fence=self.fence,
            failure_reason=reason,
            failure_category=category,
            retry_delay_ms=retry_delay_ms,
            failure_detail=None if error is None else detail_of(error),
        )
        return await self._end(self._backend.fail_execution(args))

    async def cancel(self, reason: str) -> c.CancelExecutionResult:
        """active -> cancelled."""
        args = c.CancelExecutionArgs(execution_id=self.execution_id, fence=self.fence, reason=reason)
        return await self._end(self._backend.cancel_execution(args))

    async def delay_execution(self, delay_until: int) -> c.DelayExecutionResult:
        """active -> delayed; the same attempt resumes at `delay_until`."""
        args = c.DelayExecutionArgs(execution_id=self.execution_id, fence=self.fence, delay_until=delay_until)
        return await self._end(self._backend.delay_execution(args))

    async def move_to_waiting_children(self) -> c.MoveToWaitingChildrenResult:
        """active -> waiting_children."""
        args = c.MoveToWaitingChildrenArgs(execution_id=self.execution_id, fence=self.fence)
        return await self._end(self._backend.move_to_waiting_children(args))

    async def suspend(
        self,
        resume_condition: ResumeCondition,
        *,
        waitpoints: Sequence[c.WaitpointBinding] = (),
        suspension_id: SuspensionId | None = None,
        **options: Unpack[SuspendOptions],
    ) -> c.SuspendExecutionResult:
        """active -> suspended, which ends the task; if early signals satisfy the condition, it keeps its lease.

        Without `waitpoints` a new one is made for each key in the condition. Pass an idempotency key to be able to
        repeat the call after a lost connection.
        """
        self._check_open()
        args = c.SuspendExecutionArgs(
            execution_id=self.execution_id,
            fence=self.fence,
            attempt_index=self.attempt_index,
            suspension_id=suspension_id or SuspensionId.new(),
            waitpoints=tuple(waitpoints) or bindings(resume_condition, {}),
            resume_condition=resume_condition,
            **options,
        )
        was_renewed = self._lease.is_renewed
        self.stop_renewal()  # a renewal after the suspension would be refused
        try:
            result = await self._backend.suspend_execution(args)
            if isinstance(result, c.ExecutionSuspended):
                self._finish()
            return result
        finally:
            if was_renewed and not self._ended:
                self.start_renewal()

    async def create_pending_waitpoint(
        self, waitpoint_key: str | None = None, *, expires_in_ms: int = _DAY_MS
    ) -> c.CreatePendingWaitpointResult:
        """Make a waitpoint before the suspension. Bind it there with PendingWaitpoint; signals may come before that."""
        self._check_open()
        waitpoint_id = WaitpointId.new()
        args = c.CreatePendingWaitpointArgs(
            execution_id=self.execution_id,
            fence=self.fence,
            attempt_index=self.attempt_index,
            waitpoint_id=waitpoint_id,
            waitpoint_key=WaitpointKey(waitpoint_key or f"wpk:{waitpoint_id}"),
            expires_in_ms=expires_in_ms,
        )
        return await self._backend.create_pending_waitpoint(args)

    async def resume_signals(self) -> tuple[c.ResumeSignal, ...]:
        """The signals that ended the latest suspension of this attempt; empty if it ended otherwise."""
        found: list[c.ResumeSignal] = []
        after = None
        while True:
            args = c.ListResumeSignalsArgs(
                execution_id=self.execution_id, attempt_index=self.attempt_index, after=after
            )
            page = await self._backend.list_resume_signals(args)
            found += page.signals
            after = page.next_cursor
            if after is None:
                return tuple(found)

    async def renew_lease(self) -> c.RenewLeaseResult:
        """Extend the lease by `lease_ttl_ms` from now."""
        self._check_open()
        return await self._lease.renew()

    async def update_progress(self, pct: int | None = None, message: str | None = None) -> c.UpdateProgressResult:
        self._check_open()
        return await self._backend.update_progress(
            c.UpdateProgressArgs(
                execution_id=self.execution_id, fence=self.fence, progress_pct=pct, progress_message=message
            )
        )

    async def append_frame(
        self, frame_type: str, payload: bytes, metadata_json: str | None = None, **options: Unpack[FrameOptions]
    ) -> c.AppendFrameResult:
        """Append a frame to the attempt's stream; a repeated call appends another frame."""
        self._check_open()
        return await self._backend.append_frame(
            c.AppendFrameArgs(
                execution_id=self.execution_id,
                attempt_index=self.attempt_index,
                fence=self.fence,
                frame_type=frame_type,
                payload=payload,
                metadata_json=metadata_json,
                **options,
            )
        )

    def start_renewal(self) -> None:
        """Renew in the background, three times per lease lifetime, until the task ends or the lease is lost."""
        self._lease.start_renewal()

    def stop_renewal(self) -> None:
        self._lease.stop_renewal()

    async def _end(self, call: Coroutine[Any, Any, T]) -> T:
        """Any answer of the store ends the task, a refusal too; after a lost connection the call can be repeated."""
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
            raise InvalidInput("task", self.execution_id, "has ended; claim it again to continue")

    def __del__(self) -> None:
        if not self._ended:
            _logger.warning("%s was dropped without an end; its lease will expire", self.execution_id.short)
            self._lease.stop_renewal()
