"""SuspensionPort on Valkey: suspend, resume, time out, and waitpoints."""

from __future__ import annotations

from secrets import token_hex

from msgspec.structs import replace

from flowfabric.backends.valkey.library.calls import Fields, FunctionCaller, Value
from flowfabric.backends.valkey.library.cursors import decode_cursor, encode_cursor
from flowfabric.backends.valkey.library.keys import tags_of
from flowfabric.backends.valkey.library.records import reading
from flowfabric.backends.valkey.ports.executions import fence_args
from flowfabric.backends.valkey.rows.merge import Place, Source, fill, first, settled
from flowfabric.core import contracts as c
from flowfabric.core.forms import WaitForm
from flowfabric.core.ids import ExecutionId, LaneId, SuspensionId, WaitpointId, WaitpointKey, WaitpointToken
from flowfabric.core.lease_handle import Handle, HandleKind
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.core.states import PublicState

_MINUTE_MS = 60_000
_WEEK_MS = 7 * 24 * 60 * _MINUTE_MS
# The score of suspensions without a timeout.
_NO_TIMEOUT = 9_999_999_999_999
_USUAL_POLICY = c.ResumePolicy()


class ValkeySuspensions:
    """Suspensions and waitpoints."""

    _caller: FunctionCaller
    partitions: PartitionConfig

    async def suspend_execution(self, args: c.SuspendExecutionArgs) -> c.SuspendExecutionResult:
        fields = await self._caller.call_execution(
            "suspend_execution",
            args.execution_id,
            attempt_index=args.attempt_index,
            **fence_args(args.fence),
            suspension_id=args.suspension_id,
            **_binding_args(args),
            reason_code=args.reason_code,
            requested_by=args.requested_by,
            timeout_at=args.timeout_at,
            resume_condition_json=args.resume_condition_json,
            resume_policy_json="" if args.resume_policy == _USUAL_POLICY else args.resume_policy.to_json(),
            continuation_metadata_pointer=args.continuation_metadata_pointer,
            timeout_behavior=args.timeout_behavior,
            idempotency_key=args.idempotency_key,
            dedup_ttl_ms=_dedup_ttl_ms(args),
        )
        return _suspended(args.handle, fields)

    async def reject_signals(self, args: c.RejectSignalsArgs) -> c.RejectSignalsResult:
        fields = await self._caller.call_execution(
            "reject_signals",
            args.execution_id,
            **fence_args(args.fence),
            suspension_id=args.suspension_id,
            form="" if args.form is None else args.form.to_json(),
            rejected=[text for each in args.rejected for text in (each.signal_id, each.problem)],
        )
        return _suspended(None, fields)

    async def resume_execution(self, args: c.ResumeExecutionArgs) -> c.ResumeExecutionResult:
        fields = await self._caller.call_execution(
            "resume_execution",
            args.execution_id,
            trigger_type=args.trigger_type,
            resume_delay_ms=args.resume_delay_ms,
            suspension_id=args.suspension_id,
        )
        return c.ExecutionResumed(public_state=PublicState(fields.text(0)))

    async def expire_suspension(self, args: c.ExpireSuspensionArgs) -> c.ExpireSuspensionResult:
        fields = await self._caller.call_execution("expire_suspension", args.execution_id)
        if len(fields.values) == 1:
            return c.SuspensionNotExpired(reason=fields.text(0))
        return c.SuspensionExpired(
            behavior_applied=TimeoutBehavior(fields.text(0)), public_state=PublicState(fields.text(1))
        )

    async def create_pending_waitpoint(self, args: c.CreatePendingWaitpointArgs) -> c.CreatePendingWaitpointResult:
        fields = await self._caller.call_execution(
            "create_pending_waitpoint",
            args.execution_id,
            attempt_index=args.attempt_index,
            waitpoint_id=args.waitpoint_id,
            waitpoint_key=args.waitpoint_key,
            **fence_args(args.fence),
            expires_in_ms=args.expires_in_ms,
            token_seed=_seed(),
        )
        issued = _issued(fields, 0)
        return c.PendingWaitpointCreated(
            waitpoint_id=issued.waitpoint_id,
            waitpoint_key=issued.waitpoint_key,
            waitpoint_token=issued.waitpoint_token,
        )

    async def close_waitpoint(self, args: c.CloseWaitpointArgs) -> c.CloseWaitpointResult:
        fields = await self._caller.call_execution(
            "close_waitpoint",
            args.execution_id,
            waitpoint_id=args.waitpoint_id,
            reason=args.reason,
            source=args.source,
        )
        return c.WaitpointAlreadyClosed() if fields.text(0) == "already_closed" else c.WaitpointClosed()

    async def read_waitpoint_token(self, args: c.ReadWaitpointTokenArgs) -> c.IssuedWaitpoint:
        fields = await self._caller.call_execution(
            "read_waitpoint_token", args.execution_id, waitpoint_id=args.waitpoint_id, token_seed=_seed()
        )
        return _issued(fields, 0)

    async def list_suspended(self, args: c.ListSuspendedArgs) -> c.ListSuspendedPage:
        place = decode_cursor("suspended", args.cursor, tuple[int, str]) if args.cursor else None
        sources = [_Suspended(self._caller, tag, args, place) for tag in tags_of(self.partitions)]
        await fill(sources, args.limit)
        found, rest = settled(sources, args.limit)
        if len(found) == args.limit:
            reached: Place | None = found[-1][0] if rest else None
        else:
            reached = first(sources, newest=False)
        cursor = encode_cursor("suspended", *reached) if reached else None
        return c.ListSuspendedPage(entries=tuple(each for _, each in found), next_cursor=cursor)

    async def list_pending_waitpoints(self, args: c.ListPendingWaitpointsArgs) -> c.ListPendingWaitpointsPage:
        fields = await self._caller.call_execution(
            "list_pending_waitpoints", args.execution_id, after=args.after, limit=args.limit
        )
        more = fields.text(0) == "1"
        with reading("waitpoints of execution", args.execution_id):
            return c.ListPendingWaitpointsPage(
                entries=tuple(_waitpoint(args.execution_id, each) for each in fields.entries(2)),
                next_cursor=WaitpointId.trusted(fields.text(1)) if more else None,
                form=WaitForm.read(found) if (found := fields.raw(3)) else None,
            )


def _binding_args(args: c.SuspendExecutionArgs) -> dict[str, Value]:
    """The first waitpoint, the others, then the timeout in ms, whether tokens come later, their seed, and the form.

    A pending waitpoint has no key.
    """
    first, uses_pending = args.waitpoints[0], False
    rest = [str(len(args.waitpoints) - 1)]
    for each in args.waitpoints:
        uses_pending = uses_pending or type(each) is c.PendingWaitpoint
        if each is not first:
            rest += each.waitpoint_id, _key_to_send(each)
    rest.append("" if args.timeout_ms is None else str(args.timeout_ms))
    rest += ("", _seed()) if args.issue_tokens else ("later",)
    if args.form is not None:
        rest += *([] if args.issue_tokens else [""]), args.form.to_json().decode()
    return {
        "waitpoint_id": first.waitpoint_id,
        "waitpoint_key": _key_to_send(first),
        "use_pending_waitpoint": "by_key" if uses_pending else "",
        "additional": rest,
    }


def _seed() -> str:
    """The random seed of a token, so that only operators need the right to read the store's secrets."""
    return token_hex(32)


def _key_to_send(binding: c.WaitpointBinding) -> str:
    return binding.waitpoint_key if isinstance(binding, c.FreshWaitpoint) else ""


def _dedup_ttl_ms(args: c.SuspendExecutionArgs) -> int | None:
    if args.idempotency_key is None or args.dedup_ttl_ms is not None:
        return args.dedup_ttl_ms
    return _WEEK_MS if args.timeout_ms is None else min(args.timeout_ms + _MINUTE_MS, _WEEK_MS)


def _suspended(handle: Handle | None, fields: Fields) -> c.SuspendExecutionResult:
    suspension_id, issued = SuspensionId.trusted(fields.text(0)), _issued(fields, 1)
    more = tuple(_issued(fields, 5 + 3 * at) for at in range(fields.number(4)))
    if fields.status == "ALREADY_SATISFIED":
        return c.SuspensionAlreadySatisfied(
            suspension_id=suspension_id,
            waitpoint_id=issued.waitpoint_id,
            waitpoint_key=issued.waitpoint_key,
            waitpoint_token=issued.waitpoint_token,
            additional_waitpoints=more,
        )
    return c.ExecutionSuspended(
        suspension_id=suspension_id,
        waitpoint_id=issued.waitpoint_id,
        waitpoint_key=issued.waitpoint_key,
        waitpoint_token=issued.waitpoint_token,
        additional_waitpoints=more,
        handle=replace(handle, kind=HandleKind.SUSPENDED) if handle else None,
    )


def _issued(fields: Fields, at: int) -> c.IssuedWaitpoint:
    return c.IssuedWaitpoint(
        waitpoint_id=WaitpointId.trusted(fields.text(at)),
        waitpoint_key=WaitpointKey.trusted(fields.text(at + 1)),
        waitpoint_token=WaitpointToken.trusted(fields.text(at + 2)),
    )


class _Suspended(Source[c.SuspendedExecutionEntry]):
    """The suspended executions of one partition, by timeout and id."""

    def __init__(self, caller: FunctionCaller, tag: str, args: c.ListSuspendedArgs, place: Place | None) -> None:
        super().__init__()
        self._caller = caller
        self._tag = tag
        self._place = place
        self._args: dict[str, Value] = {"lane_id": args.lane_id, "reason_code": args.reason_code}

    async def ask(self, count: int) -> None:
        after_ms, after_id = self._place or (None, "")
        fields = await self._caller.call_partition(
            "list_suspended", self._tag, **self._args, after_ms=after_ms, after_id=after_id, limit=count
        )
        for row in fields.rows(3):
            with reading("suspension of execution", row[0]):
                self.found.append(((int(row[1]), row[0]), _entry(row)))
        self.finished = fields.text(0) == "0"
        if not self.finished:
            self.reached = self._place = (fields.number(1), fields.text(2))


def _entry(row: list[str]) -> c.SuspendedExecutionEntry:
    timeout_at = int(row[1]) if int(row[1]) != _NO_TIMEOUT else None
    return c.SuspendedExecutionEntry(
        execution_id=ExecutionId(row[0]),
        lane_id=LaneId(row[2]),
        suspension_id=SuspensionId.trusted(row[4]),
        reason=row[3],
        suspended_at=int(row[6]),
        timeout_at=timeout_at,
        timeout_behavior=TimeoutBehavior(row[7]) if timeout_at is not None else None,
    )


def _waitpoint(execution_id: ExecutionId, entry: Fields) -> c.PendingWaitpointInfo:
    return c.PendingWaitpointInfo(
        waitpoint_id=WaitpointId.trusted(entry.text(0)),
        waitpoint_key=WaitpointKey.trusted(entry.text(1)),
        execution_id=execution_id,
        state=c.WaitpointState(entry.text(2)),
        created_at=entry.number(3),
        activated_at=entry.number(4) if entry.text(4) else None,
        expires_at=entry.number(5) if entry.text(5) else None,
        token_kid=entry.text(6),
        token_fingerprint=entry.text(7),
        required_signal_names=tuple(entry.texts(9)),
    )
