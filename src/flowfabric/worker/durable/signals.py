"""Signals, waitpoints, and the ends of waits, as a handler sees them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

import msgspec

from flowfabric.client.tasks import payloads
from flowfabric.client.tasks.payloads import ENCODING
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.codec import decode_id, to_msgpack
from flowfabric.core.conditions import TIMEOUT_SIGNAL_NAME
from flowfabric.core.ids import ExecutionId, SignalId, WaitpointId, WaitpointKey, WaitpointToken
from flowfabric.core.links import SignalLink
from flowfabric.errors import InvalidInput
from flowfabric.worker.attempts.outcomes import INVALID_PAYLOAD, Fail
from flowfabric.worker.executors.handler_codec import reader

T = TypeVar("T")

_AS_IT_IS: Final = (Any, bytes)
_TIMED_OUT: Final = "timed_out"  # prefix of the close reasons of timeouts


class SignalTimeout(TimeoutError):
    """Not enough signals came before the timeout."""


class ResumedWithoutSignal(Exception):
    """An operator ended the wait without a signal."""


@dataclass(frozen=True, slots=True)
class Signal(Generic[T]):
    """A signal: its payload, its claimed sender, its waitpoint, and when it arrived."""

    name: str
    payload: T
    waitpoint_key: WaitpointKey
    source_type: str
    source_identity: str
    received_at: datetime
    id: SignalId

    @classmethod
    def read(cls, signal: c.ResumeSignal, kind: Any) -> Signal[Any]:
        """The signal with its payload decoded as `kind`."""
        return cls(
            name=signal.signal_name,
            payload=_payload(signal, kind),
            waitpoint_key=signal.waitpoint_key,
            source_type=signal.source_type,
            source_identity=signal.source_identity,
            received_at=datetime.fromtimestamp(signal.accepted_at / 1000, UTC),
            id=signal.signal_id,
        )


def _payload(signal: c.ResumeSignal, kind: Any) -> Any:
    """Decode JSON as `kind`; no payload counts as null, and other encodings stay bytes."""
    field = f"payload of signal {signal.signal_name!r}"
    if signal.payload is not None and signal.payload_encoding not in (ENCODING, None):
        if kind in _AS_IT_IS:
            return signal.payload
        problem = f"{field} is {signal.payload_encoding}; wait for it with type=bytes"
        raise Fail(problem, category=INVALID_PAYLOAD, retryable=False)
    decode = reader(kind, "type")
    try:
        return payloads.decode(b"null" if signal.payload is None else signal.payload, decode, field)
    except InvalidInput as error:
        raise Fail(str(error), category=INVALID_PAYLOAD, retryable=False) from error


class Waitpoint(msgspec.Struct, frozen=True):
    """A waitpoint made before its wait. Its token does not show in its repr."""

    execution_id: ExecutionId
    id: WaitpointId
    key: WaitpointKey
    token: WaitpointToken
    base: str

    def link(self, signal_name: str | None = None) -> str:
        """The URL that delivers a signal here, by default of this name. It contains the token."""
        found = SignalLink(
            execution_id=self.execution_id, waitpoint_id=self.id, token=self.token, signal_name=signal_name
        )
        return found.url(self.base)


class WaitEnd(msgspec.Struct, frozen=True):
    """How a wait ended."""

    close_reason: str
    signals: tuple[c.ResumeSignal, ...] = ()

    @property
    def is_timeout(self) -> bool:
        return self.close_reason.startswith(_TIMED_OUT)

    @property
    def told(self) -> tuple[c.ResumeSignal, ...]:
        """The signals without the one that a timeout adds."""
        return tuple(each for each in self.signals if each.signal_name != TIMEOUT_SIGNAL_NAME)

    def pieces(self) -> Iterator[bytes]:
        """Split into pieces that fit in one record each; signals may be many and large."""
        packed = to_msgpack(self)
        for start in range(0, len(packed), limits.STEP_RESULT_MAX_BYTES):
            yield packed[start : start + limits.STEP_RESULT_MAX_BYTES]

    @staticmethod
    def joined(pieces: list[bytes]) -> WaitEnd:
        end: WaitEnd = _unpacked(b"".join(pieces))
        return end


_unpacked: Final = msgspec.msgpack.Decoder(WaitEnd, dec_hook=decode_id).decode
