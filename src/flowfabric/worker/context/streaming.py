"""Streaming from a handler: the part of the context that emits frames."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Coroutine, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from msgspec.structs import force_setattr

from flowfabric.client import frame_values
from flowfabric.client.tasks import payloads
from flowfabric.client.tasks.options import Duration, ms
from flowfabric.core import contracts as c
from flowfabric.core.contracts.frame_marks import PREFIX, is_mark
from flowfabric.errors import InvalidInput
from flowfabric.worker.context.awaited import AwaitedCalls
from flowfabric.worker.durable.journal import Journal, running_step
from flowfabric.worker.reporting.outgoing_frames import ROOM, SENT
from flowfabric.worker.reporting.requests import like

if TYPE_CHECKING:
    from flowfabric.worker.context.context import Link

Mode: TypeAlias = Literal["durable", "summary", "best_effort"]

OUTPUT: Final = "output"  # the default type of a frame


class StreamingContext(AwaitedCalls):
    """Sends frames in the background, in order, and before the attempt's end."""

    __slots__ = ()

    _link: Link
    _journal: Journal | None

    def emit(
        self,
        value: object,
        *,
        type: str = OUTPUT,  # noqa: A002
        mode: c.StreamMode | Mode = c.StreamMode.DURABLE,
        ttl: Duration | None = None,
        metadata: Mapping[str, Any] | None = None,
        correlation_id: str | None = None,
        source: str | None = None,
    ) -> Awaitable[None]:
        """Append a frame to the attempt's stream: text and bytes as they are, anything else as JSON.

        Await it in async handlers; it waits only if the store is slower than the handler. In threads and processes
        the call itself waits. A "summary" frame is a JSON merge patch of the attempt's summary. Of "best_effort"
        frames only the newest are kept; with a `ttl`, about as many as arrive within twice that time. Frames that a
        step emits belong to it: a pass that skips the step keeps them.
        """
        if mode is c.StreamMode.DURABLE and not (metadata or correlation_id or source or ttl):
            payload, encoding = frame_values.encode(value)
            frame = like(_template(type, encoding))  # the common case: the template was validated once
            force_setattr(frame, "payload", payload)
        else:
            frame = _frame(value, type, mode, ttl, metadata, correlation_id, source)
        if self._journal is not None and (run := running_step(self._journal)) is not None:
            run.emits(frame)
        sent = self._link.emit(frame)
        if sent is ROOM:
            return (self._calls or self._noted()).emits.made()
        if sent is not SENT:
            self._note(cast("Coroutine[Any, Any, None]", sent), "emit", sys._getframe(1))
        return sent


def emit_frame(context: StreamingContext, frame: c.Frame) -> Awaitable[None]:
    """Emit a frame that a handler in another process has made."""
    return context._link.emit(frame)


@lru_cache(maxsize=1_000)
def _template(kind: str, encoding: str) -> c.Frame:
    _check_type(kind)
    return c.Frame(frame_type=kind, payload=b"", encoding=encoding)


def _frame(
    value: object,
    kind: str,
    mode: c.StreamMode | Mode,
    ttl: Duration | None,
    metadata: Mapping[str, Any] | None,
    correlation_id: str | None,
    source: str | None,
) -> c.Frame:
    _check_type(kind)
    if ttl is not None and mode != c.StreamMode.BEST_EFFORT:
        raise InvalidInput("ttl", ttl, "is for best_effort frames; the stream's retention limits the others")
    if mode == c.StreamMode.SUMMARY:
        payload, encoding = _patch(value), frame_values.JSON
    else:
        payload, encoding = frame_values.encode(value)
    return c.Frame(
        frame_type=kind,
        payload=payload,
        encoding=encoding,
        metadata_json=None if metadata is None else payloads.encode(metadata, "metadata").decode(),
        correlation_id=correlation_id,
        source=source,
        mode=mode,  # type: ignore[arg-type]  # checked there
        live=c.LiveFrames() if ttl is None else c.LiveFrames(ttl_ms=ms("ttl", ttl)),
    )


def _check_type(kind: object) -> None:
    if isinstance(kind, str) and is_mark(kind):
        raise InvalidInput("type", kind, f"must not begin with {PREFIX!r}, which is reserved")


def _patch(value: object) -> bytes:
    payload = frame_values.encode_json(value)
    if payload[:1] != b"{":
        raise InvalidInput("value", type(value), "must be an object: a summary frame is a patch")
    return payload
