"""Reading what a batch claim answers: the hot path of every worker, so what the store says is not checked again."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from flowfabric.backends.valkey.calls import parse_envelope
from flowfabric.backends.valkey.client import Reply
from flowfabric.core import batch as b
from flowfabric.core import contracts as c
from flowfabric.core.handle import BackendTag, HandleKind, HandleWriter
from flowfabric.core.ids import AttemptId, ExecutionId, LeaseId
from flowfabric.core.states import AttemptType
from flowfabric.errors import BadReply, FlowFabricError

_RESUMED: Final = b"resumed"
_KINDS: Final = {kind.encode(): kind for kind in AttemptType}


class CallIds(NamedTuple):
    """What the ids begin with that one call may make."""

    leases: str
    attempts: str

    @classmethod
    def new(cls) -> CallIds:
        return cls(LeaseId.new_beginning(), AttemptId.new_beginning())

    def of(self, number: int) -> tuple[LeaseId, AttemptId]:
        return LeaseId.numbered(self.leases, number), AttemptId.numbered(self.attempts, number)


class ClaimReader:
    """Turns the envelopes of one batch into work; what all of its claims share is made once."""

    def __init__(self, args: b.ClaimExecutionsArgs, ids: CallIds, expires_at: Reply) -> None:
        self._ids = ids
        self._expires_at = int(expires_at or 0)  # type: ignore[arg-type]
        self._handles = HandleWriter(
            BackendTag.VALKEY,
            lease_ttl_ms=args.lease_ttl_ms,
            lane_id=args.lane_id,
            worker_instance_id=args.worker_instance_id,
        )

    def read(self, reply: Reply, subject: str = "") -> b.ClaimOutcome:
        try:
            if reply[0]:  # type: ignore[index]
                return self._work(*reply)  # type: ignore[misc]
            parse_envelope("claim_batch", reply, subject)
        except FlowFabricError as error:
            return error
        except (ValueError, KeyError, AttributeError, TypeError, IndexError) as cause:
            raise BadReply(f"claim_batch: not a claim: {reply!r:.200}") from cause
        raise BadReply(f"claim_batch: not a claim: {reply!r:.200}")

    def _work(
        self,
        number: int,
        execution_id: bytes,
        epoch: bytes,
        index: bytes,
        kind: bytes,
        execution_kind: bytes,
        payload: bytes,
        encoding: bytes,
        resumed: bytes = b"",
    ) -> b.ClaimedWork:
        """The row is the one that lua/lib/taking.lua answers with."""
        is_resumed = kind == _RESUMED
        lease_id, attempt_id = self._ids.of(number)
        if is_resumed:
            attempt_id = AttemptId.trusted(resumed.decode())
        owned: dict[str, Any] = {
            "execution_id": ExecutionId.trusted(execution_id.decode()),
            "lease_id": lease_id,
            "lease_epoch": int(epoch),
            "attempt_index": int(index),
            "attempt_id": attempt_id,
            "lease_expires_at": self._expires_at,
            "handle": self._handles.write(
                HandleKind.RESUMED if is_resumed else HandleKind.FRESH,
                execution_id=execution_id,
                attempt=(int(index), attempt_id.encode()),
                lease=(int(epoch), lease_id.encode()),
            ),
        }
        claim = (
            c.ClaimedResumedExecution(**owned) if is_resumed else c.ClaimedExecution(attempt_type=_KINDS[kind], **owned)
        )
        return b.ClaimedWork(
            claim=claim,
            execution_kind=execution_kind.decode(),
            input_payload=payload,
            payload_encoding=encoding.decode() or None,
        )
