"""Decode the reply of a batch claim: the hot path of every worker, so values of the store are not validated again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import force_setattr

from flowfabric.backends.valkey.library.calls import parse_envelope
from flowfabric.backends.valkey.ports.signals import read_resumption
from flowfabric.backends.valkey.rows.inputs import read_inputs, size_of
from flowfabric.backends.valkey.wire.client import Reply
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import AttemptId, ExecutionId, LeaseId
from flowfabric.core.lease_handle import BackendTag, HandleWriter
from flowfabric.core.states import AttemptType
from flowfabric.errors import BadReply, FlowFabricError

_KINDS: Final[dict[bytes, AttemptType | None]] = {kind.encode(): kind for kind in AttemptType} | {b"resumed": None}
_FENCE: Final = c.LeaseFence(lease_id=LeaseId.new(), lease_epoch=0, attempt_id=AttemptId.new())
_id: Final = str.__new__  # an id straight from text or bytes


class CallIds(NamedTuple):
    """The prefix of the ids that one call may create; each id ends with the number of its claim."""

    leases: str
    attempts: str

    @classmethod
    def new(cls) -> CallIds:
        return cls(LeaseId.new_beginning(), AttemptId.new_beginning())


class ClaimReader:
    """Turn the rows of one batch into work; values that all of its claims share are built once."""

    def __init__(self, args: b.ClaimExecutionsArgs, ids: CallIds, expires_at: Reply) -> None:
        self._leases, self._attempts = ids
        self._expires_at = int(expires_at or 0) if isinstance(expires_at, bytes) else 0
        self._handles = HandleWriter(
            BackendTag.VALKEY,
            lease_ttl_ms=args.lease_ttl_ms,
            lane_id=args.lane_id,
            worker_instance_id=args.worker_instance_id,
        )

    def read(self, reply: Reply, subject: str = "") -> b.ClaimOutcome:
        if not (isinstance(reply, list) and reply and reply[0]):  # rare
            return _refused(reply, subject)
        try:
            return self._work(*reply)  # type: ignore[arg-type]
        except (ValueError, KeyError, AttributeError, TypeError) as cause:
            raise BadReply(f"claim_batch: not a claim: {reply!r:.200}") from cause

    def _work(
        self,
        number: int,
        execution_id: bytes,
        payload: bytes,
        name: bytes,
        encoding: bytes,
        epoch: bytes = b"1",
        index: bytes = b"0",
        kind: bytes = b"initial",
        resumed: bytes | None = None,
        resumption: bytes = b"",
        inputs: Reply = None,
    ) -> b.ClaimedWork:
        """The row that lua/lib/claim/claim_take.lua replies with; a first attempt has the short form."""
        ending = f"{number:012x}"
        attempt_id = f"{self._attempts}{ending}" if not resumed else resumed.decode()
        given: Sequence[c.ExecutionInput] = ()
        if inputs is not None:  # members of flows that take results
            own = len(payload) - size_of(inputs)
            given, payload = read_inputs(inputs, payload[own:]), payload[:own]
        return b.ClaimedWork(
            execution_id=_id(ExecutionId, execution_id, "ascii"),
            fence=_fence(_id(LeaseId, f"{self._leases}{ending}"), int(epoch), _id(AttemptId, attempt_id)),
            attempt_index=int(index),
            attempt_type=_KINDS[kind],
            lease_expires_at=self._expires_at,
            handles=self._handles,
            execution_kind=name.decode(),
            input_payload=payload,
            payload_encoding=encoding.decode() or None,
            resumption=read_resumption(resumption) if resumption else None,
            inputs=given,
        )


def _fence(lease_id: LeaseId, epoch: int, attempt_id: AttemptId) -> c.LeaseFence:
    """Copy a validated instance: validating each one would cost more than running a small handler."""
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
