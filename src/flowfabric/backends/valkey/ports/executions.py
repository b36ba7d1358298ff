"""ExecutionPort on Valkey: name the arguments, call the function, turn its fields into the result."""

from __future__ import annotations

from uuid import uuid4

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import Fields, FunctionCaller, Value
from flowfabric.backends.valkey.library.tenancy import ValkeyTenancy
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.codec import to_json
from flowfabric.core.contracts.failures import detail_to_json
from flowfabric.core.ids import ExecutionId
from flowfabric.core.policy import policy_to_json
from flowfabric.core.rules.execution import repeats
from flowfabric.core.states import PublicState
from flowfabric.errors import BadReply, ExecutionNotActive


def fence_args(fence: c.LeaseFence | None) -> dict[str, Value]:
    """The three parts of a fence, or none of them."""
    if fence is None:
        return {}
    return {"lease_id": fence.lease_id, "lease_epoch": fence.lease_epoch, "attempt_id": fence.attempt_id}


class ValkeyExecutions(ValkeyTenancy):
    """The life of an execution."""

    _caller: FunctionCaller

    async def create_execution(self, args: c.CreateExecutionArgs) -> c.CreateExecutionResult:
        await self.check_limits([args])
        tag = args.execution_id.tag
        idempotency = (
            keys.idempotency(tag, args.namespace, args.idempotency_key) if args.idempotency_key else keys.noop(tag)
        )
        fields = await self._caller.call(
            "create_execution",
            {"core": self._caller.core(args.execution_id), "idempotency": idempotency},
            _create_args(args),
            subject=args.execution_id,
        )
        return created_from(fields, args.execution_id)

    async def complete_execution(self, args: c.CompleteExecutionArgs) -> c.CompleteExecutionResult:
        done = c.ExecutionCompleted(execution_id=args.execution_id, public_state=PublicState.COMPLETED)
        try:
            await self._caller.call_execution(
                "complete_execution",
                args.execution_id,
                **fence_args(args.fence),
                result_payload=args.result_payload,
                source=args.source,
                result_encoding=args.result_encoding,
            )
        except ExecutionNotActive as error:
            if not repeats.was_completed(args, error.details):
                raise
        return done

    async def fail_execution(self, args: c.FailExecutionArgs) -> c.FailExecutionResult:
        try:
            fields = await self._caller.call_execution(
                "fail_execution",
                args.execution_id,
                **fence_args(args.fence),
                failure_reason=args.failure_reason,
                failure_category=args.failure_category,
                retry_policy_json=args.retry_policy_json,
                source=args.source,
                retry_delay_ms=args.retry_delay_ms,
                retry_from="policy" if args.retry_policy_json is None else "argument",
                failure_detail=detail_to_json(args.failure_detail),
            )
        except ExecutionNotActive as error:
            if recorded := repeats.was_failed(args, error.details):
                return recorded
            raise
        if fields.text(0) == "retry_scheduled":
            return c.RetryScheduled(delay_until=fields.number(1))
        return c.TerminalFailed()

    async def cancel_execution(self, args: c.CancelExecutionArgs) -> c.CancelExecutionResult:
        done = c.ExecutionCancelled(execution_id=args.execution_id, public_state=PublicState.CANCELLED)
        try:
            await self._caller.call_execution(
                "cancel_execution",
                args.execution_id,
                **fence_args(args.fence),
                reason=args.reason,
                source=args.source,
            )
        except ExecutionNotActive as error:
            if not repeats.was_cancelled(args, error.details):
                raise
        return done

    async def delay_execution(self, args: c.DelayExecutionArgs) -> c.DelayExecutionResult:
        try:
            fields = await self._caller.call_execution(
                "delay_execution",
                args.execution_id,
                **fence_args(args.fence),
                delay_until=args.delay_until,
                source=args.source,
            )
        except ExecutionNotActive as error:
            if not repeats.was_delayed(args, error.details):
                raise
            return c.ExecutionDelayed(
                execution_id=args.execution_id, public_state=PublicState(str(error.details["public_state"]))
            )
        return c.ExecutionDelayed(execution_id=args.execution_id, public_state=PublicState(fields.text(1)))

    async def move_to_waiting_children(self, args: c.MoveToWaitingChildrenArgs) -> c.MoveToWaitingChildrenResult:
        try:
            await self._caller.call_execution(
                "move_to_waiting_children",
                args.execution_id,
                **fence_args(args.fence),
                source=args.source,
                require_dependencies="1",
            )
        except ExecutionNotActive as error:
            if not repeats.was_moved_to_waiting_children(args, error.details):
                raise
        return c.MovedToWaitingChildren(execution_id=args.execution_id, public_state=PublicState.WAITING_CHILDREN)

    async def expire_execution(self, args: c.ExpireExecutionArgs) -> c.ExpireExecutionResult:
        fields = await self._caller.call_execution(
            "expire_execution", args.execution_id, expire_reason=args.expire_reason
        )
        match fields.text(0):
            case "expired":
                return c.ExecutionExpired(execution_id=args.execution_id)
            case "retry_scheduled":
                return c.RetryScheduled(delay_until=fields.number(1))
            case "not_yet_due":
                return c.NotDue()
            case "already_terminal" | "not_found_cleaned":
                return c.AlreadyTerminal()
            case other:
                raise BadReply(f"expire_execution: unknown status {other!r}")

    async def replay_execution(self, args: c.ReplayExecutionArgs) -> c.ReplayExecutionResult:
        fields = await self._caller.call_execution("replay_execution", args.execution_id)
        return c.ExecutionReplayed(public_state=PublicState(fields.text(1)))

    async def retry_execution(self, args: c.RetryExecutionArgs) -> c.RetryExecutionResult:
        fields = await self._caller.call_execution("retry_execution", args.execution_id)
        return c.ExecutionRetried(public_state=PublicState(fields.text(1)))

    async def fork_execution(self, args: c.ForkExecutionArgs) -> c.ForkExecutionResult:
        fork_id = args.fork_id or ExecutionId(f"{args.execution_id.tag}:{uuid4()}")
        at = args.from_step
        fields = await self._caller.call_execution(
            "fork_execution",
            args.execution_id,
            fork_id=fork_id,
            from_step=at.name if at else None,
            occurrence=at.occurrence if at else None,
            has_input=None if args.input_payload is None else "1",
            input_payload=args.input_payload,
            payload_encoding=args.payload_encoding,
            changed=[part for each in args.changed for part in _changed(each)],
        )
        if fields.status == "DUPLICATE":
            return c.ExecutionDuplicate(execution_id=fork_id)
        return c.ExecutionForked(
            execution_id=fork_id, public_state=PublicState(fields.text(1)), step_count=fields.number(2)
        )

    async def change_priority(self, args: c.ChangePriorityArgs) -> c.ChangePriorityResult:
        fields = await self._caller.call_execution("change_priority", args.execution_id, new_priority=args.new_priority)
        return c.PriorityChanged(
            execution_id=args.execution_id, old_priority=fields.number(0), new_priority=fields.number(1)
        )

    async def update_progress(self, args: c.UpdateProgressArgs) -> c.UpdateProgressResult:
        await self._caller.call_execution(
            "update_progress",
            args.execution_id,
            **fence_args(args.fence),
            progress_pct=args.progress_pct,
            progress_message=args.progress_message,
        )
        return c.ProgressUpdated()

    async def watch_execution(self, args: c.WatchExecutionArgs) -> c.WatchExecutionResult:
        fields = await self._caller.call_execution("watch_execution", args.execution_id, watcher_id=args.watcher_id)
        state = PublicState(fields.text(1))
        if fields.text(0) == "ended":
            return c.WatchedHasEnded(public_state=state)
        return c.ExecutionWatched(public_state=state)

    async def set_execution_tags(self, args: c.SetExecutionTagsArgs) -> c.SetExecutionTagsResult:
        pairs = [text for pair in sorted(args.tags.items()) for text in pair]
        fields = await self._caller.call_execution("set_execution_tags", args.execution_id, pairs=pairs)
        return c.TagsSet(count=fields.number(0))


def _changed(each: c.ChangedStep) -> tuple[str | bytes, ...]:
    return each.step.name, str(each.step.occurrence), each.encoding or "", each.payload


def created_from(fields: Fields, execution_id: ExecutionId) -> c.CreateExecutionResult:
    """The outcome of submitting `execution_id`."""
    if fields.status == "DUPLICATE":
        return c.ExecutionDuplicate(execution_id=ExecutionId(fields.text(0)))
    public_state = PublicState(fields.text(1))
    if fields.status == "REPLACED":
        return c.ExecutionReplaced(execution_id=ExecutionId(fields.text(0)), public_state=public_state)
    return c.ExecutionCreated(execution_id=execution_id, public_state=public_state)


def _create_args(args: c.CreateExecutionArgs) -> dict[str, Value]:
    return {
        "execution_id": args.execution_id,
        "namespace": args.namespace,
        "lane_id": args.lane_id,
        "execution_kind": args.execution_kind,
        "priority": args.priority,
        "creator_identity": args.creator_identity,
        "policy_json": policy_to_json(args.policy) if args.policy else None,
        "input_payload": args.input_payload,
        "delay_until": args.effective_delay_until,
        "dedup_ttl_ms": _dedup_ttl_ms(args) or None,
        "tags_json": to_json(args.tags) if args.tags else None,
        "execution_deadline_at": args.execution_deadline_at,
        "partition_id": args.execution_id.partition_index,
        "payload_encoding": args.payload_encoding,
        "on_duplicate": args.on_duplicate if args.on_duplicate is not c.DuplicateMode.RETURN_EXISTING else None,
        "concurrency_key": args.concurrency_key,
        "delay_ms": args.delay_ms,
    }


def create_items(args: c.CreateExecutionArgs) -> tuple[str | int, ...]:
    """The item of a batch, in the order of `submit_batch`; payloads are sent separately."""
    # Names as plain str: subclasses of str are slower to encode.
    uuid, namespace, lane_id, encoding = (
        args.execution_id.uuid, str(args.namespace), str(args.lane_id), args.payload_encoding or ""
    )  # fmt: skip
    if _is_plain(args):
        return (uuid, namespace, lane_id, args.execution_kind, encoding)
    key = args.idempotency_key
    items = (
        uuid,
        namespace,
        lane_id,
        args.execution_kind,
        args.priority,
        args.creator_identity,
        policy_to_json(args.policy) if args.policy else "",
        args.effective_delay_until or 0,
        keys.owned(args.namespace, key) if key else "",
        _dedup_ttl_ms(args),
        to_json(args.tags).decode() if args.tags else "",
        args.execution_deadline_at or 0,
        encoding,
    )
    if args.on_duplicate is c.DuplicateMode.RETURN_EXISTING and not args.concurrency_key and not args.delay_ms:
        return items
    return (*items, args.on_duplicate, args.concurrency_key or "", args.delay_ms or 0)


def _is_plain(args: c.CreateExecutionArgs) -> bool:
    """Whether the submission has no options."""
    return not (
        args.priority
        or args.creator_identity
        or args.policy
        or args.effective_delay_until
        or args.delay_ms
        or args.idempotency_key
        or args.concurrency_key
        or args.tags
        or args.execution_deadline_at
        or args.on_duplicate is not c.DuplicateMode.RETURN_EXISTING
    )


def _dedup_ttl_ms(args: c.CreateExecutionArgs) -> int:
    if not args.idempotency_key:
        return 0
    return (args.policy.dedup_window_ms if args.policy else None) or limits.DEFAULT_IDEMPOTENCY_TTL_MS
