"""JSON forms of batches, whose items may be refused one by one, and of claimed work.

A refused item is {"error": problem} in the place of its outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec

from flowfabric.backends.http.problems import Problem
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.codec import decode_id, encode_short_id
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import ExecutionId
from flowfabric.core.lease_handle import BackendTag, HandleWriter
from flowfabric.core.partition import Partition
from flowfabric.core.states import AttemptType
from flowfabric.errors import BadReply, FlowFabricError, InvalidInput

_MOST: Final = msgspec.Meta(max_length=limits.REQUEST_MAX_ITEMS)


class FinishItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One ending: `complete` or `fail`."""

    complete: c.CompleteExecutionArgs | None = None
    fail: c.FailExecutionArgs | None = None

    @property
    def ending(self) -> b.FinishArgs:
        if self.complete is not None and self.fail is None:
            return self.complete
        if self.fail is not None and self.complete is None:
            return self.fail
        raise InvalidInput("finish", "both" if self.fail else "neither", "each must have one of complete and fail")


class FinishRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """End some attempts, renew other leases and claim the next work, in one step of one partition."""

    partition: Partition
    finish: Annotated[tuple[FinishItem, ...], _MOST] = ()
    renew: Annotated[tuple[c.RenewLeaseArgs, ...], _MOST] = ()
    claim: b.ClaimExecutionsArgs | None = None

    def args(self) -> b.FinishExecutionsArgs:
        return b.FinishExecutionsArgs(
            partition=self.partition,
            finish=tuple(item.ending for item in self.finish),
            renew=self.renew,
            claim=self.claim,
        )

    @classmethod
    def of(cls, args: b.FinishExecutionsArgs) -> FinishRequest:
        items = (
            FinishItem(complete=each) if isinstance(each, c.CompleteExecutionArgs) else FinishItem(fail=each)
            for each in args.finish
        )
        return cls(partition=args.partition, finish=tuple(items), renew=args.renew, claim=args.claim)


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """A lease and the input of its attempt."""

    execution_id: ExecutionId
    fence: c.LeaseFence
    attempt_index: int
    attempt_type: AttemptType | None
    lease_expires_at: int
    execution_kind: str
    input_payload: bytes
    payload_encoding: str | None = None
    resumption: b.Resumption | None = None
    inputs: tuple[c.ExecutionInput, ...] = ()

    @classmethod
    def of(cls, work: b.ClaimedWork) -> Work:
        return cls(
            execution_id=work.execution_id,
            fence=work.fence,
            attempt_index=work.attempt_index,
            attempt_type=work.attempt_type,
            lease_expires_at=work.lease_expires_at,
            execution_kind=work.execution_kind,
            input_payload=work.input_payload,
            payload_encoding=work.payload_encoding,
            resumption=work.resumption,
            inputs=tuple(work.inputs),
        )

    def claimed(self, handles: HandleWriter) -> b.ClaimedWork:
        return b.ClaimedWork(
            execution_id=self.execution_id,
            fence=self.fence,
            attempt_index=self.attempt_index,
            attempt_type=self.attempt_type,
            lease_expires_at=self.lease_expires_at,
            handles=handles,
            execution_kind=self.execution_kind,
            input_payload=self.input_payload,
            payload_encoding=self.payload_encoding,
            resumption=self.resumption,
            inputs=self.inputs,
        )


def handles_for(args: b.ClaimExecutionsArgs) -> HandleWriter:
    return HandleWriter(
        BackendTag.VALKEY,
        lease_ttl_ms=args.lease_ttl_ms,
        lane_id=args.lane_id,
        worker_instance_id=args.worker_instance_id,
    )


def _encode(value: object) -> object:
    if isinstance(value, FlowFabricError):
        return {"error": Problem.of(value)}
    return encode_short_id(value)


_encoder: Final = msgspec.json.Encoder(enc_hook=_encode)


def to_wire(value: object) -> bytes:
    """A request or a result as JSON; bytes become base64."""
    return _encoder.encode(_plain(value))


def _plain(value: object) -> object:
    """Without the parts that never leave the process."""
    if isinstance(value, b.ClaimedWork):
        return Work.of(value)
    if isinstance(value, b.FinishExecutionsResult):
        return {
            "finished": value.finished,
            "renewed": value.renewed,
            "claimed": [Work.of(each) for each in value.claimed],
        }
    return [_plain(each) for each in value] if isinstance(value, list) else value


def reader(kind: Any) -> Callable[[bytes | str], Any]:
    """Reads a JSON text as this type."""
    return msgspec.json.Decoder(kind, dec_hook=decode_id).decode


def outcomes(kind: Any) -> Callable[[msgspec.Raw | bytes], list[Any]]:
    """Reads a list of outcomes, each of this type or an error."""
    read_all, read_one, read_error = reader(list[msgspec.Raw]), reader(kind), reader(dict[str, Problem])

    def read(data: msgspec.Raw | bytes) -> list[Any]:
        found = []
        for item in read_all(bytes(data)):
            text = bytes(item)
            found.append(read_error(text)["error"].error() if text.startswith(b'{"error":') else read_one(text))
        return found

    return read


_finished: Final = outcomes(c.CompleteExecutionResult | c.FailExecutionResult)
_renewed: Final = outcomes(c.RenewLeaseResult)
_works: Final = outcomes(Work)
_members: Final = reader(dict[str, msgspec.Raw])


def read_claims(data: bytes, args: b.ClaimExecutionsArgs) -> list[b.ClaimOutcome]:
    handles = handles_for(args)
    return [each.claimed(handles) if isinstance(each, Work) else each for each in _works(data)]


def read_finished(data: bytes, args: b.FinishExecutionsArgs) -> b.FinishExecutionsResult:
    members = _members(data)
    claimed = _works(members["claimed"])
    if claimed and args.claim is None:
        raise BadReply("finish_executions: the reply has claimed work, but the request had no claim")
    handles = handles_for(args.claim) if args.claim is not None else None
    return b.FinishExecutionsResult(
        finished=_finished(members["finished"]),
        renewed=_renewed(members["renewed"]),
        claimed=[each.claimed(handles) for each in claimed],
    )
