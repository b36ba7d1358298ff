"""Bad input to each port of streams."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.ids import ExecutionId
from tests.conformance.driver import Driver, Subject
from tests.conformance.streaming import append_many, frames, many, read

Bad = Callable[[Driver, Subject], Awaitable[object]]


async def tail(driver: Driver, x: Subject, **overrides: Any) -> None:
    args = c.TailFramesArgs(execution_id=x.execution_id, attempt_index=0, **overrides)
    await driver.backend.tail_attempt_stream(args)


async def follow(driver: Driver, x: Subject, **overrides: Any) -> None:
    args = c.FollowFramesArgs(execution_id=x.execution_id, attempt_index=0, **overrides)
    async with driver.backend.follow_attempt_stream(args) as follower:
        await follower.next()


BAD_STREAMS: list[tuple[str, str, Bad]] = [
    ("append_frame", "frame_type", lambda d, x: d.append(x, frame_type="")),
    ("append_frame", "frame_type", lambda d, x: d.append(x, frame_type="line\nbreak")),
    ("append_frame", "payload", lambda d, x: d.append(x, "text")),  # type: ignore[arg-type]
    ("append_frame", "payload", lambda d, x: d.append(x, b"x" * (limits.FRAME_PAYLOAD_MAX_BYTES + 1))),
    ("append_frame", "payload", lambda d, x: d.append(x, b"[]", mode="summary")),
    ("append_frame", "mode", lambda d, x: d.append(x, mode="loud")),
    ("append_frame", "metadata_json", lambda d, x: d.append(x, metadata_json="{")),
    ("append_frame", "source", lambda d, x: d.append(x, source="x" * 257)),
    ("append_frame", "step_run", lambda d, x: d.append(x, step_run="x" * 257)),
    ("append_frame", "retention_maxlen", lambda d, x: d.append(x, retention_maxlen=-1)),
    ("append_frame", "max_payload_bytes", lambda d, x: d.append(x, max_payload_bytes=0)),
    ("append_frames", "first_number", lambda d, x: append_many(d, many(x, -1, b"a"))),
    ("append_frames", "frames", lambda d, x: append_many(d, many(x, 0))),
    ("append_frames", "frames", lambda d, x: append_many(d, many(x, 0, frames=frames(*[b"a"] * 257)))),
    ("append_frames", "payload", lambda d, x: append_many(d, many(x, 0, b"ab", max_payload_bytes=1))),
    ("read_attempt_stream", "count_limit", lambda d, x: read(d, x, count_limit=0)),
    ("read_attempt_stream", "count_limit", lambda d, x: read(d, x, count_limit=limits.STREAM_READ_HARD_CAP + 1)),
    ("read_attempt_stream", "from_id", lambda d, x: read(d, x, from_id="-")),
    ("read_attempt_stream", "after", lambda d, x: read(d, x, after="end")),
    ("read_attempt_stream", "visibility", lambda d, x: read(d, x, visibility="some")),
    ("tail_attempt_stream", "block_ms", lambda d, x: tail(d, x, block_ms=limits.MAX_TAIL_BLOCK_MS + 1)),
    ("tail_attempt_stream", "after", lambda d, x: tail(d, x, after="start")),
    ("follow_attempt_stream", "after", lambda d, x: follow(d, x, after="start")),
    ("follow_attempt_stream", "count_limit", lambda d, x: follow(d, x, count_limit=-1)),
    ("describe_stream", "attempt_index", lambda d, x: d.backend.describe_stream(x.execution_id, -1)),
    ("describe_stream", "execution_id", lambda d, x: d.backend.describe_stream(ExecutionId("x"), 0)),
    ("read_summary", "execution_id", lambda d, x: d.backend.read_summary(ExecutionId("x"), 0)),
]  # fmt: skip
