"""Reading what a batch claim answers: the hot path of every worker, so what the store says is not checked again."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import force_setattr

from flowfabric.backends.valkey.calls import parse_envelope
from flowfabric.backends.valkey.client import Reply
from flowfabric.core import batch as b
from flowfabric.core import contracts as c
from flowfabric.core.handle import BackendTag, HandleWriter
from flowfabric.core.ids import AttemptId, ExecutionId, LeaseId
from flowfabric.core.states import AttemptType
from flowfabric.errors import BadReply, FlowFabricError

_KINDS: Final[dict[bytes, AttemptType | None]] = {kind.encode(): kind for kind in AttemptType} | {b"resumed": None}
_FENCE: Final = c.LeaseFence(lease_id=LeaseId.new(), lease_epoch=0, attempt_id=AttemptId.new())
_id: Final = str.__new__  # an id straight from bytes


class ClaimReader:
    """Turns the envelopes of one batch into work; what all of its claims share is made once."""

    def __init__(self, args: b.ClaimExecutionsArgs) -> None:
        self._handles = HandleWriter(
            BackendTag.VALKEY,
            lease_ttl_ms=args.lease_ttl_ms,
            lane_id=args.lane_id,
            worker_instance_id=args.worker_instance_id,
        )

    def read(self, reply: Reply, subject: str = "") -> b.ClaimOutcome:
        if not (isinstance(reply, list) and reply and reply[0] == 1):  # few of them
            return _refused(reply, subject)
        try:
            return self._work(reply)
        except (ValueError, KeyError, AttributeError, TypeError) as cause:
            raise BadReply(f"claim_batch: not a claim: {reply!r:.200}") from cause

    def _work(self, reply: Any) -> b.ClaimedWork:
        """The fields are those that lua/lib/taking.lua answers with, behind the two of every envelope."""
        _, _, execution_id, lease_id, epoch, expires, attempt_id, index, kind, name, payload, encoding = reply
        return b.ClaimedWork(
            execution_id=_id(ExecutionId, execution_id, "ascii"),
            fence=_fence(_id(LeaseId, lease_id, "ascii"), int(epoch), _id(AttemptId, attempt_id, "ascii")),
            attempt_index=int(index),
            attempt_type=_KINDS[kind],
            lease_expires_at=int(expires),
            handles=self._handles,
            execution_kind=name.decode(),
            input_payload=payload,
            payload_encoding=encoding.decode() or None,
        )


def _fence(lease_id: LeaseId, epoch: int, attempt_id: AttemptId) -> c.LeaseFence:
    """A copy of one that was checked: checking each again costs more than running a small handler."""
    fence: c.LeaseFence = _FENCE.__copy__()  # type: ignore[attr-defined]
    force_setattr(fence, "lease_id", lease_id)
    force_setattr(fence, "lease_epoch", epoch)
    force_setattr(fence, "attempt_id", attempt_id)
    return fence


def _refused(reply: Reply, subject: str) -> FlowFabricError:
    try:
        parse_envelope("claim_batch", reply, subject)
    except FlowFabricError as error:
        return error
    raise BadReply(f"claim_batch: not a claim: {reply!r:.200}")
