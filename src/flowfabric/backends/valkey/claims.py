"""Reading what a batch claim answers: the hot path of every worker, so what the store says is not checked again."""

from __future__ import annotations

from typing import Any, Final

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
        try:
            fields = parse_envelope("claim_batch", reply, subject).values
            return self._work(fields)
        except FlowFabricError as error:
            return error
        except (ValueError, KeyError, AttributeError) as cause:
            raise BadReply(f"claim_batch: not a claim: {reply!r:.200}") from cause

    def _work(self, fields: Any) -> b.ClaimedWork:
        """The fields are those that lua/lib/taking.lua answers with."""
        execution_id, lease_id, epoch, expires, attempt_id, index, kind, execution_kind, payload, encoding = fields
        is_resumed = kind == _RESUMED
        owned: dict[str, Any] = {
            "execution_id": ExecutionId.trusted(execution_id.decode()),
            "lease_id": LeaseId.trusted(lease_id.decode()),
            "lease_epoch": int(epoch),
            "attempt_index": int(index),
            "attempt_id": AttemptId.trusted(attempt_id.decode()),
            "lease_expires_at": int(expires),
            "handle": self._handles.write(
                HandleKind.RESUMED if is_resumed else HandleKind.FRESH,
                execution_id=execution_id,
                attempt=(int(index), attempt_id),
                lease=(int(epoch), lease_id),
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
