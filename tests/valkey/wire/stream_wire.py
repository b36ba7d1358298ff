"""The calls of streams as another program makes them, by the positions of the public wire."""

from __future__ import annotations

from typing import Any

from tests.valkey.wire.wire import Execution, Reply


def stream(x: Execution, index: int = 0) -> str:
    return f"ff:stream:{x.tag}:{x.id}:{index}"


def append(x: Execution, payload: object = "hi", *appended: object, index: object = 0, lease: str | None = None,
           epoch: object = 1, attempt: str | None = None, frame_type: str = "token", maxlen: object = 0,
           max_bytes: object = 65_536, ts: object = "") -> Reply:  # fmt: skip
    """The 13 arguments of 0.2.0, then stream_mode, patch_kind, ttl_ms and the others."""
    keys = [x.core, stream(x), x.smeta(0)]
    attempt = x.attempt if attempt is None else attempt
    return x.fcall("ff_append_frame", keys, x.id, index, x.lease if lease is None else lease, epoch, frame_type, ts,
                   payload, "utf8", "corr", "worker", maxlen, attempt, max_bytes, *appended)  # fmt: skip


def read(x: Execution, *args: object, index: int = 0) -> Reply:
    """from_id, to_id, count_limit, visibility."""
    return x.fcall("ff_read_attempt_stream", [stream(x, index), x.smeta(index)], *(args or ("-", "+", 100)))


def payloads(reply: Reply) -> list[str]:
    return [fields_of(entry)["payload"] for entry in reply[2]]


def fields_of(entry: list[Any]) -> dict[str, str]:
    return dict(zip(entry[1][::2], entry[1][1::2], strict=True))


def read_summary(x: Execution) -> Reply:
    return x.fcall("ff_read_summary", [x.att(0, ":summary")])
