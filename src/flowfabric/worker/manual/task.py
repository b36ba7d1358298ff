"""One attempt by hand: its holder ends it once, and is told when the lease is gone. `Worker` does that by itself."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypedDict, TypeVar, Unpack

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.conditions import ResumeCondition
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
from flowfabric.errors import Conflict, FlowFabricError, InvalidInput, NotFound, Unavailable
from flowfabric.worker.attempts.attempt import UNHEALTHY_AFTER
from flowfabric.worker.durable.signal_waits import bindings

T = TypeVar("T")

_logger: Final = logging.getLogger("flowfabric.worker")

_DAY_MS: Final = 86_400_000


class SuspendOptions(TypedDict, total=False):
    """The rest of a suspension, as SuspendExecutionArgs has it."""

    resume_policy: c.ResumePolicy
    reason_code: c.SuspensionReasonCode
    requested_by: c.SuspensionRequester
    timeout_at: int | None
    timeout_ms: int | None
    timeout_behavior: TimeoutBehavior
    continuation_metadata_pointer: str | None
    idempotency_key: str | None
    dedup_ttl_ms: int | None


class FrameOptions(TypedDict, total=False):
    """The rest of a frame, as AppendFrameArgs has it."""

    encoding: str | None
    correlation_id: str | None
    source: str | None
    mode: c.StreamMode
    live: c.LiveFrames
    retention_maxlen: int | None
    retention_ms: int | None
    max_payload_bytes: int


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

    async def inputs(self) -> list[c.ExecutionInput]:
        """What the upstreams of a flow's member give to it, in the order of its edges; nothing outside of flows."""
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

    async def suspend(
        self,
        resume_condition: ResumeCondition,
        *,
        waitpoints: Sequence[c.WaitpointBinding] = (),
        suspension_id: SuspensionId | None = None,
        **options: Unpack[SuspendOptions],
    ) -> c.SuspendExecutionResult:
        """active -> suspended, which ends the task; when early signals suffice, it goes on with its lease.

        Without `waitpoints` there is a new one for each key that the condition names. To be able to say it again after
        a lost connection, give it an idempotency key.
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
        was_renewed = self._renewal is not None
        self.stop_renewal()  # one that comes behind it would be refused
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
        """A waitpoint ahead of the suspension: bind it there with PendingWaitpoint, and what came early counts."""
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
        """The signals that ended the latest suspension of this attempt; none when something else did."""
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

    async def append_frame(
        self, frame_type: str, payload: bytes, metadata_json: str | None = None, **options: Unpack[FrameOptions]
    ) -> c.AppendFrameResult:
        """Add a frame to the attempt's stream; repeated, it adds another."""
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
