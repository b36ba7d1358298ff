"""SignalPort on Valkey: one delivery for pending and active waitpoints, and what a resumed worker reads."""

from __future__ import annotations

from flowfabric.backends.valkey.calls import Fields, FunctionCaller, Value
from flowfabric.core import batch as b
from flowfabric.core import contracts as c
from flowfabric.core.codec import from_msgpack
from flowfabric.core.ids import SignalId, SuspensionId, WaitpointId, WaitpointKey

_DEFAULT_ENCODING = "json"


class ValkeySignals:
    """What the world outside says."""

    _caller: FunctionCaller

    async def deliver_signal(self, args: c.DeliverSignalArgs) -> c.SignalOutcome:
        fields = await self._caller.call_execution(
            "deliver_signal",
            args.execution_id,
            **_content(args),
            waitpoint_id=args.waitpoint_id,
            correlation_id=args.correlation_id,
            target_scope=args.target_scope,
            created_at=args.created_at,
            dedup_ttl_ms=args.dedup_ttl_ms,
            resume_delay_ms=args.resume_delay_ms,
            signal_maxlen=args.signal_maxlen,
            max_signals_per_execution=args.max_signals_per_execution,
            waitpoint_token=args.waitpoint_token.reveal(),
            on_pending="buffer",  # the store sees which of the two it is, in the step that acts on it (D2)
        )
        return _outcome(fields)

    async def signal_execution(self, args: c.SignalExecutionArgs) -> c.SignalOutcome:
        fields = await self._caller.call_execution(
            "signal_execution",
            args.execution_id,
            **_content(args),
            waitpoint_key=args.waitpoint_key,
            correlation_id=args.correlation_id,
        )
        return _outcome(fields)

    async def list_resume_signals(self, args: c.ListResumeSignalsArgs) -> c.ListResumeSignalsPage:
        fields = await self._caller.call_execution(
            "list_resume_signals",
            args.execution_id,
            attempt_index=args.attempt_index,
            after=args.after,
            limit=args.limit,
        )
        return _page(fields)


class _Unpacked(Fields):
    """Fields that came packed, and so are text already."""

    __slots__ = ()

    def text(self, at: int) -> str:
        return self.values[at]  # type: ignore[return-value]

    def raw(self, at: int) -> bytes:
        return self.text(at).encode()


def read_resumption(packed: bytes) -> b.Resumption | None:
    """What a claim tells of a resumed attempt (lua/lib/resumption.lua); None when it has to be asked for."""
    try:
        fields = _Unpacked("claim_batch", "OK", from_msgpack(packed))
        return b.Resumption(fields.number(7), _page(fields))
    except (ValueError, TypeError, IndexError):  # a payload that is no text: packing knows no bytes
        return None


def _page(fields: Fields) -> c.ListResumeSignalsPage:
    keys = dict(fields.rows(5))
    signals = tuple(_signal(entry, keys) for entry in fields.entries(6))
    more = fields.text(0) == "1"
    return c.ListResumeSignalsPage(
        signals=signals,
        next_cursor=signals[-1].signal_id if more else None,
        suspension_id=SuspensionId.trusted(fields.text(1)) if fields.text(1) else None,
        close_reason=fields.text(3) or None,
        continuation_metadata_pointer=fields.text(4) or None,
    )


def _content(args: c.DeliverSignalArgs | c.SignalExecutionArgs) -> dict[str, Value]:
    return {
        "signal_id": args.signal_id,
        "signal_name": args.signal_name,
        "signal_category": args.signal_category,
        "source_type": args.source_type,
        "source_identity": args.source_identity,
        "payload": args.payload,
        "payload_encoding": args.payload_encoding,
        "idempotency_key": args.idempotency_key,
    }


def _outcome(fields: Fields) -> c.SignalOutcome:
    signal_id = SignalId.trusted(fields.text(0))
    if fields.status == "DUPLICATE":
        return c.SignalDuplicate(existing_signal_id=signal_id)
    effect = c.SignalEffect(fields.text(1))
    if effect is c.SignalEffect.RESUMED:
        return c.ResumeTriggered(signal_id=signal_id)
    return c.SignalAccepted(signal_id=signal_id, effect=effect)


def _signal(entry: Fields, keys: dict[str, str]) -> c.ResumeSignal:
    has_payload = len(entry.values) > 9
    waitpoint_id = entry.text(8)
    return c.ResumeSignal(
        signal_id=SignalId.trusted(entry.text(0)),
        signal_name=entry.text(1),
        waitpoint_id=WaitpointId.trusted(waitpoint_id),
        waitpoint_key=WaitpointKey.trusted(keys.get(waitpoint_id, "")),
        accepted_at=entry.number(6),
        signal_category=entry.text(2),
        source_type=entry.text(3),
        source_identity=entry.text(4),
        correlation_id=entry.text(5) or None,
        payload=entry.raw(9) if has_payload else None,
        payload_encoding=(entry.text(7) or _DEFAULT_ENCODING) if has_payload else None,
    )
