"""Decode stream entries into frames, and encode frames; headers that frames of a batch share are sent once."""

from __future__ import annotations

from typing import cast

from flowfabric.backends.valkey.wire.client import Reply
from flowfabric.core import contracts as c

_USUAL = [b"frame_type", b"ts", b"payload", b"encoding"]
_USUAL_LENGTH = 2 * len(_USUAL)

Head = tuple[str | int | float, ...]


def frame_of(entry: Reply) -> c.StreamFrame:
    """Fields that another program left out get their defaults."""
    entry_id, flat = cast("tuple[bytes, list[bytes]]", entry)
    if len(flat) == _USUAL_LENGTH and flat[::2] == _USUAL:  # the common case
        _, kind, _, ts, _, payload, _, encoding = flat
        return c.StreamFrame(
            id=entry_id.decode(), frame_type=kind.decode(), payload=payload, ts=int(ts), encoding=encoding.decode()
        )
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    get = fields.get
    return c.StreamFrame(
        id=entry_id.decode(),
        frame_type=_text(get(b"frame_type")) or "",
        payload=get(b"payload", b""),
        ts=_number(get(b"ts")) or 0,
        encoding=_text(get(b"encoding")),
        metadata_json=_text(get(b"metadata_json")),
        correlation_id=_text(get(b"correlation_id")),
        source=_text(get(b"source")),
        mode=_text(get(b"mode")) or "durable",
        summary_version=_number(get(b"summary_version")),
        ttl_ms=_number(get(b"ttl_ms")),
        step_run=_text(get(b"step_run")),
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _number(value: bytes | None) -> int | None:
    return None if value is None else int(value)


def id_order(entry_id: str) -> tuple[int, int]:
    """Ids compare as pairs of numbers."""
    ms, _, number = entry_id.partition("-")
    return int(ms), int(number or 0)


def head_of(frame: c.Frame) -> Head:
    """The header of a frame; trailing defaults are left out."""
    common = (frame.frame_type, frame.encoding or "")
    if frame.mode is c.StreamMode.DURABLE and not (
        frame.source or frame.correlation_id or frame.metadata_json or frame.timestamp or frame.step_run
    ):
        return common
    rest = (frame.source or "", frame.correlation_id or "", frame.metadata_json or "", frame.timestamp or 0)
    live = frame.live
    if frame.mode is not c.StreamMode.BEST_EFFORT and frame.step_run is None:
        return (*common, *rest, str(frame.mode))
    bounds = (live.ttl_ms, live.maxlen_floor, live.maxlen_ceiling, live.ema_alpha)
    return (*common, *rest, str(frame.mode), *bounds, *((frame.step_run,) if frame.step_run else ()))


def group_item(args: c.AppendFramesArgs) -> tuple[object, ...]:
    """The frames of one attempt as a batch item: the distinct headers, and the 1-based header of each frame."""
    heads: dict[Head, int] = {}
    picks = [heads.setdefault(head_of(frame), len(heads) + 1) for frame in args.frames]
    fence = args.fence
    held = (str(args.attempt_index), str(fence.lease_id), str(fence.lease_epoch), str(fence.attempt_id))
    kept = (args.retention_maxlen or 0, args.retention_ms or 0, args.max_payload_bytes)
    return (args.execution_id.uuid, *held, args.first_number, *kept, list(heads), picks)
