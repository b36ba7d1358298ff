"""SignalPort on Valkey: deliver signals to pending and active waitpoints; read the signals of a resumption."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from flowfabric.backends.valkey.library.calls import Fields, FunctionCaller, Value
from flowfabric.backends.valkey.library.records import reading
from flowfabric.core import contracts as c
from flowfabric.core.codec import from_msgpack
from flowfabric.core.contracts import batch as b
from flowfabric.core.forms import WaitForm
from flowfabric.core.ids import SignalId, SuspensionId, WaitpointId, WaitpointKey
from flowfabric.core.rules.waits import answers
from flowfabric.errors import Conflict

_DEFAULT_ENCODING = "json"
_ASK: Final = "ask"
_EFFECTS: Final = {effect.value: effect for effect in c.SignalEffect}


class ValkeySignals:
    """Deliver and read signals."""

    _caller: FunctionCaller

    async def deliver_signal(self, args: c.DeliverSignalArgs) -> c.SignalOutcome:
        return await _judged(args, lambda fitted_to: self._deliver(args, fitted_to))

    def _deliver(self, args: c.DeliverSignalArgs, fitted_to: str) -> Awaitable[Fields]:
        return self._caller.call_execution(
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
            on_pending="buffer",  # the store decides between the two in the same step (D2)
            on_undeclared="refuse" if args.declared_only else "keep",
            fitted_to=fitted_to,
        )

    async def signal_execution(self, args: c.SignalExecutionArgs) -> c.SignalOutcome:
        return await _judged(args, lambda fitted_to: self._signal(args, fitted_to))

    def _signal(self, args: c.SignalExecutionArgs, fitted_to: str) -> Awaitable[Fields]:
        return self._caller.call_execution(
            "signal_execution",
            args.execution_id,
            **_content(args),
            waitpoint_key=args.waitpoint_key,
            correlation_id=args.correlation_id,
            fitted_to=fitted_to,
        )

    async def list_resume_signals(self, args: c.ListResumeSignalsArgs) -> c.ListResumeSignalsPage:
        fields = await self._caller.call_execution(
            "list_resume_signals",
            args.execution_id,
            attempt_index=args.attempt_index,
            after=args.after,
            limit=args.limit,
        )
        rows = [_Row([cell.decode() for cell in cells[:9]], cells[9:]) for cells in fields.lists(6)]
        with reading("signals of execution", args.execution_id):
            return _page(fields.text(0), fields.text(1), fields.text(3), fields.text(4), dict(fields.rows(5)), rows)


async def _judged(
    args: c.DeliverSignalArgs | c.SignalExecutionArgs, send: Callable[[str], Awaitable[Fields]]
) -> c.SignalOutcome:
    """Send a signal; where the wait declares a type, only after the payload was compared with it.

    The store cannot judge JSON against a schema. It delivers a compared payload to the wait that it was compared
    with, and answers the form of any other.
    """
    fitted_to = _ASK
    while True:
        try:
            return _outcome(await send(fitted_to))
        except Conflict as refusal:
            if refusal.code != "answer_unchecked":
                raise
            answers.check(WaitForm.read(str(refusal.details["form"])), args.payload, args.payload_encoding)
            fitted_to = str(refusal.details["suspension_id"])


class _Row(NamedTuple):
    """A signal as lua/lib/suspension/resumption.lua has it: texts, then the payload if there is one."""

    texts: Sequence[str]
    payload: Sequence[Any]


def read_resumption(packed: bytes) -> b.Resumption | None:
    """The resumption that came with a claim; None if it must be read separately."""
    try:
        more, suspension_id, _, ending, pointer, waitpoints, signals, steps = from_msgpack(packed)
        rows = [_Row(cells[:9], [text.encode() for text in cells[9:]]) for cells in signals]
        return b.Resumption(int(steps), _page(more, suspension_id, ending, pointer, dict(waitpoints), rows))
    except (ValueError, TypeError, AttributeError):  # a payload that is not UTF-8: the packed form has no bytes
        return None


def _page(
    more: str, suspension_id: str, ending: str, pointer: str, waitpoints: dict[str, str], rows: Sequence[_Row]
) -> c.ListResumeSignalsPage:
    signals = tuple([_signal(row.texts, row.payload, waitpoints) for row in rows])
    return c.ListResumeSignalsPage(
        signals=signals,
        next_cursor=signals[-1].signal_id if more == "1" else None,
        suspension_id=SuspensionId.trusted(suspension_id) if suspension_id else None,
        close_reason=ending or None,
        continuation_metadata_pointer=pointer or None,
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
    effect = _EFFECTS[fields.text(1)]
    if effect is c.SignalEffect.RESUMED:
        return c.ResumeTriggered(signal_id=signal_id)
    return c.SignalAccepted(signal_id=signal_id, effect=effect)


def _signal(texts: Sequence[str], payload: Sequence[bytes], waitpoints: dict[str, str]) -> c.ResumeSignal:
    signal_id, name, category, source_type, source_identity, correlation_id, accepted_at, encoding, waitpoint_id = texts
    return c.ResumeSignal(
        signal_id=SignalId.trusted(signal_id),
        signal_name=name,
        waitpoint_id=WaitpointId.trusted(waitpoint_id),
        waitpoint_key=WaitpointKey.trusted(waitpoints.get(waitpoint_id, "")),
        accepted_at=int(accepted_at),
        signal_category=category,
        source_type=source_type,
        source_identity=source_identity,
        correlation_id=correlation_id or None,
        payload=payload[0] if payload else None,
        payload_encoding=(encoding or _DEFAULT_ENCODING) if payload else None,
    )
