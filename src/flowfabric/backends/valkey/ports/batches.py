"""BatchPort on Valkey: many items in one call of one partition, each with its own outcome."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from random import randrange

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import Fields, Value, at_once, parse_envelope
from flowfabric.backends.valkey.library.tenancy import ValkeyTenancy
from flowfabric.backends.valkey.listen.parked_claims import ValkeyParkedClaim
from flowfabric.backends.valkey.ports.executions import create_items, created_from
from flowfabric.backends.valkey.ports.limits.admission_flow import ValkeyAsking, refusal_of
from flowfabric.backends.valkey.rows.claimed import CallIds, ClaimReader
from flowfabric.backends.valkey.rows.limit_records import Offer
from flowfabric.backends.valkey.wire.client import Reply
from flowfabric.core import capability
from flowfabric.core import contracts as c
from flowfabric.core.codec import to_msgpack
from flowfabric.core.contracts import batch as b
from flowfabric.core.contracts.failures import detail_to_json
from flowfabric.core.ids import ExecutionId, LaneId
from flowfabric.core.partition import Partition, PartitionConfig, lane_partitions
from flowfabric.core.rules.execution import repeats
from flowfabric.core.rules.tasks import kinds_text
from flowfabric.core.states import PublicState
from flowfabric.errors import BadReply, ExecutionNotActive, FlowFabricError, InvalidInput

# Few enough to block the server for milliseconds only.
_PER_CALL = 100
_NOTHING = to_msgpack(())


class ValkeyBatches(ValkeyAsking, ValkeyTenancy):
    """Many at once."""

    _turns: dict[LaneId, int]  # the shard that the next claim of a lane starts with

    async def submit_executions(self, batch: Sequence[c.CreateExecutionArgs]) -> list[b.SubmitOutcome]:
        outcomes: list[b.SubmitOutcome | None] = [None] * len(batch)
        groups: dict[str, list[int]] = defaultdict(list)
        for at, problem in (await self.unseen_limits(batch)).items():
            outcomes[at] = problem
        for at, args in enumerate(batch):
            if outcomes[at] is None:
                groups[args.execution_id.tag].append(at)

        async def submit(tag: str, places: list[int]) -> None:
            if not self._caller.is_partition(tag):
                for at in places:
                    outcomes[at] = self._caller.no_partition("execution_id", batch[at].execution_id)
                return
            items = to_msgpack([create_items(batch[at]) for at in places])
            payloads = [batch[at].input_payload for at in places]
            fields = await self._call("submit_batch", tag, items=items, payloads=payloads)
            for at, reply in zip(places, _list(fields, 0), strict=True):
                outcomes[at] = _submitted(reply, batch[at].execution_id)

        await at_once(
            submit(tag, places[start : start + _PER_CALL])
            for tag, places in groups.items()
            for start in range(0, len(places), _PER_CALL)
        )
        return [outcome for outcome in outcomes if outcome is not None]

    async def claim_executions(self, args: b.ClaimExecutionsArgs) -> list[b.ClaimOutcome]:
        if args.partition is not None:
            return await self._claim_in(args.partition, args, args.count)
        claimed: list[b.ClaimOutcome] = []
        for shard in shards_in_turn(self._turns, args.lane_id, self.partitions):
            try:
                claimed += await self._claim_in(shard, args, args.count - len(claimed))
            except FlowFabricError:
                # The work claimed so far holds leases; the error surfaces when a claim starts with this shard.
                if not claimed:
                    raise
                break
            if len(claimed) == args.count:
                break
        return claimed

    async def _claim_in(self, partition: Partition, args: b.ClaimExecutionsArgs, count: int) -> list[b.ClaimOutcome]:
        ids = CallIds.new()
        request = _claim_request(args, count, ids)
        request.pop("park", None)  # only calls of workers wait
        fields = await self._call("claim_batch", partition.tag, request=to_msgpack(request))
        named = args.execution_ids
        claims = ClaimReader(args, ids, fields.values[1])
        outcomes = [claims.read(reply, named[at] if named else "") for at, reply in enumerate(_list(fields, 0))]
        offers = [Offer.read(row) for row in fields.entries(3)]
        if not offers:
            return outcomes
        admitted = await self._claim_offered(partition, args, offers)
        if named:
            return [admitted.get(each, outcomes[at]) for at, each in enumerate(named)]
        return outcomes + [work for work in admitted.values() if isinstance(work, b.ClaimedWork)]

    async def _claim_offered(
        self, partition: Partition, args: b.ClaimExecutionsArgs, offers: Sequence[Offer]
    ) -> dict[ExecutionId, b.ClaimOutcome]:
        """Ask the limits of the offered executions, and claim the admitted ones; one outcome for each reply."""
        answers = await self.ask_limits(partition.tag, offers)
        outcomes: dict[ExecutionId, b.ClaimOutcome] = {
            each.offer.execution_id: refusal_of(each) for each in answers.refused
        }
        if not answers.admitted:
            return outcomes
        ids = CallIds.new()
        request = _claim_request(args, 0, ids) | {
            "named": [offer.execution_id.uuid for offer in answers.admitted],
            "admitted": 1,
            "tickets": {offer.execution_id.uuid: offer.ticket for offer in answers.admitted},
            "permits": answers.permits,
        }
        request.pop("park", None)
        fields = await self._call("claim_batch", partition.tag, request=to_msgpack(request))
        claims = ClaimReader(args, ids, fields.values[1])
        for offer, reply in zip(answers.admitted, _list(fields, 0), strict=True):
            outcomes[offer.execution_id] = claims.read(reply, offer.execution_id)
        lost = [each for each in answers.admitted if not isinstance(outcomes[each.execution_id], b.ClaimedWork)]
        if lost:
            await self.return_offers(partition.tag, lost)
        return outcomes

    async def finish_executions(self, args: b.FinishExecutionsArgs) -> b.FinishExecutionsResult:
        _check_partition(args)
        ids = CallIds.new()
        request = _claim_request(args.claim, args.claim.count, ids) if args.claim else None
        fields = await self._call(
            "finish_batch",
            args.partition.tag,
            finish=to_msgpack(_finish_items(args.finish)) if args.finish else _NOTHING,
            renew=to_msgpack([_renew_item(item) for item in args.renew]) if args.renew else _NOTHING,
            claim=to_msgpack(request) if request else "",
            payloads=[_result(item) for item in args.finish],
        )
        result = b.FinishExecutionsResult(
            finished=[_finished(*pair) for pair in zip(args.finish, _list(fields, 0), strict=True)],
            renewed=[_renewed(*pair) for pair in zip(args.renew, _list(fields, 1), strict=True)],
            claimed=[],
        )
        if args.claim and request:
            read = ClaimReader(args.claim, ids, fields.values[3]).read
            result.claimed += [work for work in map(read, _list(fields, 2)) if isinstance(work, b.ClaimedWork)]
            if fields.values[4]:
                result.parked = ValkeyParkedClaim(self._caller, args.partition.tag, args.claim, ids, request)
        result.limited = bool(fields.values[6])
        if result.limited:
            await self._drain_own(args.partition)
        if args.claim and (offers := [Offer.read(row) for row in fields.entries(5)]):
            result.limited = True
            claimed = await self._claim_offered(args.partition, args.claim, offers)
            result.claimed += [work for work in claimed.values() if isinstance(work, b.ClaimedWork)]
        return result

    async def _drain_own(self, partition: Partition) -> None:
        """Pass freed slots to waiting executions; if that fails, the engine does it later."""
        with suppress(FlowFabricError):
            await self.settle_due(partition.tag, await self._call("due_admissions", partition.tag, limit=_PER_CALL))

    async def run_due_work(self, args: b.RunDueWorkArgs) -> b.DueWork:
        fields = await self._call("due_batch", args.partition.tag, limit=args.limit)
        requeued, promoted, timed_out, expired, failed, more = (fields.number(at) for at in range(6))
        woken, escalated, suspensions_ended, waitpoints_closed = (fields.number(at) for at in range(6, 10))
        return b.DueWork(
            requeued=requeued,
            promoted=promoted,
            timed_out=timed_out,
            expired=expired,
            failed=failed,
            more=bool(more),
            woken=woken,
            escalated=escalated,
            suspensions_ended=suspensions_ended,
            waitpoints_closed=waitpoints_closed,
            flow_work=fields.number(10),
        )

    async def _call(self, operation: str, tag: str, **args: Value) -> Fields:
        return await self._caller.call(operation, {"partition": keys.events(tag)}, args, subject=tag)


def shards_in_turn(turns: dict[LaneId, int], lane_id: LaneId, partitions: PartitionConfig) -> list[Partition]:
    """The shards of a lane in rotation, so that none starves behind a full one."""
    shards = lane_partitions(lane_id, partitions)
    if len(shards) == 1:
        return shards
    # Start anywhere: workers that claim once and exit must not all take from the same shard.
    start = turns.get(lane_id, randrange(len(shards)))  # noqa: S311 - not a secret
    turns[lane_id] = (start + 1) % len(shards)
    return shards[start:] + shards[:start]


def _list(fields: Fields, at: int) -> list[Reply]:
    value = fields.values[at]
    if not isinstance(value, list):
        raise BadReply(f"{fields.operation}: field {at} is not a list")
    return value


def _check_partition(args: b.FinishExecutionsArgs) -> None:
    prefix = args.partition.tag + ":"
    for item in (*args.finish, *args.renew):
        if not item.execution_id.startswith(prefix):
            raise InvalidInput("execution_id", item.execution_id, f"must be of partition {args.partition.tag}")
    claim_in = args.claim.partition if args.claim else None
    if claim_in is not None and claim_in.tag != args.partition.tag:
        raise InvalidInput("claim.partition", claim_in.tag, f"must be {args.partition.tag}, as for the rest, or None")


def _submitted(reply: Reply, execution_id: ExecutionId) -> b.SubmitOutcome:
    if reply == 1:  # the common case
        return c.ExecutionCreated(execution_id=execution_id, public_state=PublicState.WAITING)
    try:
        fields = parse_envelope("submit_batch", reply, execution_id)
    except FlowFabricError as error:
        return error
    return created_from(fields, execution_id)


def _claim_request(args: b.ClaimExecutionsArgs, count: int, ids: CallIds) -> dict[str, object]:
    request: dict[str, object] = {
        "lane_id": args.lane_id,
        "worker_id": args.worker_id,
        "worker_instance_id": args.worker_instance_id,
        "capabilities": capability.to_csv(args.worker_capabilities),
        "lease_ttl_ms": args.lease_ttl_ms,
        "attempt_timeout_ms": args.attempt_timeout_ms or 0,
        "lease_ids": ids.leases,
        "attempt_ids": ids.attempts,
    }
    if args.kinds:
        request["kinds"] = kinds_text(args.kinds)
    if args.execution_ids:
        request["named"] = [each.uuid for each in args.execution_ids]
        return request
    request["count"] = count
    if args.park is not None:
        request["park"] = args.park
    return request


def _result(args: b.FinishArgs) -> bytes:
    return (args.result_payload or b"") if isinstance(args, c.CompleteExecutionArgs) else b""


def _finish_items(batch: Sequence[b.FinishArgs]) -> list[str | tuple[str | int, ...]]:
    """A completion by the lease holder, the common case, is five texts in a row; others are lists."""
    items: list[str | tuple[str | int, ...]] = []
    for args in batch:
        fence = args.fence
        if isinstance(args, c.CompleteExecutionArgs) and fence and args.source is c.CancelSource.LEASE_HOLDER:
            held = (str(fence.lease_id), str(fence.lease_epoch), str(fence.attempt_id))
            items += (args.execution_id.uuid, *held, args.result_encoding or "")
        else:
            items.append(_finish_item(args))
    return items


def _finish_item(args: b.FinishArgs) -> tuple[str | int, ...]:
    fence = args.fence
    # As plain str: subclasses of str are slower to encode.
    held = (str(fence.lease_id), str(fence.lease_epoch), str(fence.attempt_id)) if fence else ("", "", "")
    if isinstance(args, c.CompleteExecutionArgs):
        return ("complete", args.execution_id.uuid, *held, args.source, args.result_encoding or "")
    retry_from = "policy" if args.retry_policy_json is None else "argument"
    failure = (args.failure_reason, args.failure_category, args.retry_policy_json or "", retry_from)
    delay = -1 if args.retry_delay_ms is None else args.retry_delay_ms
    detail = () if args.failure_detail is None else (detail_to_json(args.failure_detail) or "",)
    return ("fail", args.execution_id.uuid, *held, args.source, *failure, delay, *detail)


def _finished(args: b.FinishArgs, reply: Reply) -> b.FinishOutcome:
    if reply == 1:  # the common case
        return c.ExecutionCompleted(execution_id=args.execution_id, public_state=PublicState.COMPLETED)
    try:
        fields = parse_envelope("finish_batch", reply, args.execution_id)
    except ExecutionNotActive as error:
        return repeats.recorded(args, error.details) or error
    except FlowFabricError as error:
        return error
    if fields.text(0) == "retry_scheduled":
        return c.RetryScheduled(delay_until=fields.number(1))
    return c.TerminalFailed()


def _renew_item(args: c.RenewLeaseArgs) -> tuple[str | int, ...]:
    fence = args.fence
    held = (str(args.attempt_index), fence.attempt_id, fence.lease_id, str(fence.lease_epoch))
    return (args.execution_id.uuid, *held, args.lease_ttl_ms)


def _renewed(args: c.RenewLeaseArgs, reply: Reply) -> b.RenewOutcome:
    try:
        return c.LeaseRenewed(expires_at=parse_envelope("finish_batch", reply, args.execution_id).number(0))
    except FlowFabricError as error:
        return error
