"""How each refusal of the functions of streams is provoked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tests.valkey.wire.stream_wire import append, read, stream
from tests.valkey.wire.wire import Execution, Reply

Step = Callable[[Execution], Any]
Scenario = tuple[str, str, Step, Step]


def nothing(_: Execution) -> None: ...


def running(x: Execution) -> None:
    x.run()


def emitting(x: Execution) -> None:
    x.run()
    append(x)
    append(x, '{"a":1}', "summary")


def completed(x: Execution) -> None:
    emitting(x)
    x.complete()


def revoked(x: Execution) -> None:
    emitting(x)
    x.revoke()


def expired(x: Execution) -> None:
    x.run(ttl=1)
    due = x.client.zscore(x.idx("lease_expiry"), x.id)
    while x.client.time()[0] * 1000 + x.client.time()[1] // 1000 <= due:
        pass


def closed_early(x: Execution) -> None:
    emitting(x)
    x.client.hset(x.smeta(0), mapping={"closed_at": 1, "closed_reason": "somebody"})


def with_a_broken_summary(x: Execution) -> None:
    emitting(x)
    x.client.hset(x.att(0, ":summary"), "document", "{")


def summary(patch: str) -> Step:
    return lambda x: append(x, patch, "summary", "json-merge-patch")


def batch(groups: object, *payloads: object) -> Step:
    packed = groups if isinstance(groups, bytes) else msgspec.msgpack.encode(groups)
    return lambda x: x.fcall("ff_append_frames", [f"ff:part:{x.tag}:events"], packed, *payloads)


def describe(x: Execution, *args: object) -> Reply:
    return x.fcall("ff_describe_stream", [x.core], x.id, *args)


def group(picks: list[int], heads: object = (["token"],)) -> list[object]:
    return ["uuid", "0", "lease", "1", "attempt", 0, 0, 0, 65_536, heads, picks]


APPEND, READ, MANY = "append_frame", "read_attempt_stream", "append_frames"

STREAM_SCENARIOS: list[Scenario] = [
    (APPEND, "retention_limit_exceeded", running, lambda x: append(x, "x" * 11, max_bytes=10)),
    (APPEND, "retention_limit_exceeded", running, lambda x: append(x, "x" * 1_048_577, max_bytes=2_000_000)),
    (APPEND, "retention_limit_exceeded", nothing, lambda x: append(x, "x" * 65_537)),
    (APPEND, "retention_limit_exceeded", emitting, lambda x: append(
        x, '{"b":"' + "x" * 262_144 + '"}', "summary", max_bytes=1_000_000)),
    (APPEND, "stream_closed", nothing, append),
    (APPEND, "stream_closed", completed, append),
    (APPEND, "stream_closed", closed_early, append),
    (APPEND, "stale_owner_cannot_append", revoked, append),
    (APPEND, "stale_owner_cannot_append", expired, append),
    (APPEND, "stale_owner_cannot_append", emitting, lambda x: append(x, lease="another")),
    (APPEND, "stale_owner_cannot_append", emitting, lambda x: append(x, epoch=2)),
    (APPEND, "stale_owner_cannot_append", emitting, lambda x: append(x, attempt="another")),
    (APPEND, "stale_owner_cannot_append", emitting, lambda x: append(x, index=1)),
    (APPEND, "invalid_input", running, lambda x: append(x, maxlen=-1)),
    (APPEND, "invalid_input", running, lambda x: append(x, frame_type="")),
    (APPEND, "invalid_input", running, lambda x: append(x, frame_type="x" * 129)),
    (APPEND, "invalid_input", running, lambda x: append(x, "hi", "sometimes")),
    (APPEND, "invalid_input", running, lambda x: append(x, "{}", "summary", "json-patch")),
    (APPEND, "invalid_input", running, lambda x: append(x, "hi", "best_effort", "", 10, 1, 1, "0")),
    (APPEND, "invalid_input", running, lambda x: append(x, "hi", "best_effort", "", 10, 1, 1, "nan")),
    (APPEND, "invalid_input", emitting, summary("{")),
    (APPEND, "invalid_input", emitting, summary("[]")),
    (APPEND, "invalid_input", emitting, summary("7")),
    (APPEND, "invalid_input", emitting, summary("")),
    (APPEND, "invalid_input", emitting, summary('{"a":NaN}')),
    (APPEND, "invalid_input", emitting, summary('{"a":' * 17 + "1" + "}" * 17)),
    (APPEND, "corruption", with_a_broken_summary, summary('{"a":2}')),
    (MANY, "invalid_input", running, batch(b"\xc1")),
    (MANY, "invalid_input", running, batch([7])),
    (MANY, "invalid_input", running, batch([group([])])),
    (MANY, "invalid_input", running, batch([group([2])], "hi")),
    (MANY, "invalid_input", running, batch([group([1])])),
    (MANY, "invalid_input", running, batch([group([1])], "hi", "there")),
    (MANY, "invalid_input", running, batch([group([1] * 1_001)], *["x"] * 1_001)),
    (READ, "invalid_input", emitting, lambda x: read(x, "-", "+", 0)),
    (READ, "invalid_input", emitting, lambda x: read(x, "-", "+", 10_001)),
    (READ, "invalid_input", emitting, lambda x: read(x, "first", "+", 10)),
    (READ, "invalid_input", emitting, lambda x: read(x, "-", "+", 10, "some")),
    (READ, "invalid_input", running, lambda x: x.fcall("ff_read_attempt_stream", [x.core, stream(x)], "-", "+", 1)),
    ("describe_stream", "invalid_input", emitting, lambda x: describe(x, "first")),
    ("describe_stream", "execution_not_found", nothing, lambda x: describe(x, 0)),
]  # fmt: skip
