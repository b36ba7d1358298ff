from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import codec, limits
from flowfabric.core.contracts import (
    AppendFrameArgs,
    AppendFramesArgs,
    FollowFramesArgs,
    Frame,
    LeaseFence,
    LiveFrames,
    ReadFramesArgs,
    StreamFrame,
    StreamFrames,
    StreamMode,
    TailFramesArgs,
    Visibility,
)
from flowfabric.core.cursor import StreamCursor
from flowfabric.core.ids import AttemptId, ExecutionId, FlowId, LeaseId
from flowfabric.core.partition import PartitionConfig
from flowfabric.errors import InvalidInput

EXECUTION = ExecutionId.for_flow(FlowId.new(), PartitionConfig())
OWNER: dict[str, Any] = {
    "execution_id": EXECUTION,
    "attempt_index": 0,
    "fence": LeaseFence(lease_id=LeaseId.new(), lease_epoch=1, attempt_id=AttemptId.new()),
}
FRAME = Frame(frame_type="token", payload=b"\x00\xff")


def append(**changes: Any) -> AppendFrameArgs:
    return AppendFrameArgs(**OWNER | {"frame_type": "token", "payload": b"\x00\xff"} | changes)


def test_a_frame_needs_a_type_and_a_payload_only() -> None:
    args = append()
    assert (args.mode, args.encoding, args.retention_maxlen) == (StreamMode.DURABLE, None, None)
    assert args.max_payload_bytes == 65_536


def test_frames_of_any_bytes_survive_json() -> None:
    args = append(encoding="raw", metadata_json='{"a":[1]}', correlation_id="c", source="tool", timestamp=5)
    assert codec.from_json(AppendFrameArgs, codec.to_json(args)) == args
    many = AppendFramesArgs(**OWNER, first_number=7, frames=(FRAME, FRAME))
    assert codec.from_json(AppendFramesArgs, codec.to_json(many)) == many


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("frame_type", ""),
        ("frame_type", "x" * (limits.FRAME_TYPE_MAX_BYTES + 1)),
        ("frame_type", "a\nb"),
        ("payload", "text"),
        ("correlation_id", ""),
        ("metadata_json", "{"),
        ("metadata_json", '"' + "x" * limits.FRAME_METADATA_MAX_BYTES + '"'),
        ("mode", "sometimes"),
        ("retention_maxlen", -1),
        ("retention_ms", -1),
        ("timestamp", -1),
        ("max_payload_bytes", 0),
        ("max_payload_bytes", limits.MAX_FRAME_PAYLOAD_BYTES + 1),
    ],
)
def test_a_frame_is_refused_by_field(name: str, value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        append(**{name: value})
    assert caught.value.field == name


@pytest.mark.parametrize(
    ("size", "allowed", "is_refused"),
    [(65_536, 65_536, False), (65_537, 65_536, True), (65_537, 100_000, False), (11, 10, True)],
)
def test_a_payload_has_the_limit_of_its_call(size: int, allowed: int, is_refused: bool) -> None:
    def build() -> object:
        return append(payload=b"x" * size, max_payload_bytes=allowed)

    if not is_refused:
        build()
        return
    with pytest.raises(InvalidInput) as caught:
        build()
    assert (caught.value.field, caught.value.code) == ("payload", "retention_limit_exceeded")


def test_no_payload_is_over_a_mebibyte() -> None:
    with pytest.raises(InvalidInput) as caught:
        Frame(frame_type="token", payload=b"x" * (limits.MAX_FRAME_PAYLOAD_BYTES + 1))
    assert caught.value.code == "retention_limit_exceeded"


@pytest.mark.parametrize("payload", [b"", b"7", b"[]", b"{", b'{"a":NaN}', b"\xff"])
def test_a_summary_frame_is_a_json_object(payload: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        append(mode="summary", payload=payload)
    assert caught.value.field == "payload"
    assert append(mode="summary", payload=b'{"a":null}').mode is StreamMode.SUMMARY


@pytest.mark.parametrize("frames", [(), "frames", (b"x",), (FRAME,) * (limits.MAX_FRAMES_AT_ONCE + 1)])
def test_many_frames_are_a_bounded_list(frames: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        AppendFramesArgs(**OWNER, first_number=0, frames=frames)
    assert caught.value.field == "frames"


def test_one_large_frame_among_many_is_refused() -> None:
    large = Frame(frame_type="token", payload=b"x" * 100)
    with pytest.raises(InvalidInput) as caught:
        AppendFramesArgs(**OWNER, first_number=0, frames=(FRAME, large), max_payload_bytes=99)
    assert caught.value.code == "retention_limit_exceeded"


@pytest.mark.parametrize(
    ("name", "value"),
    [("ema_alpha", 0), ("ema_alpha", 1.1), ("ema_alpha", True), ("maxlen_floor", -1), ("maxlen_ceiling", 63)],
)
def test_the_bounds_of_live_frames_are_checked(name: str, value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        LiveFrames(**{name: value})  # type: ignore[arg-type]
    assert caught.value.field == name


@pytest.mark.parametrize(
    ("name", "value"),
    [("count_limit", 0), ("count_limit", 10_001), ("from_id", "-"), ("to_id", "first"), ("after", "start"),
     ("visibility", "some")],
)  # fmt: skip
def test_a_read_is_refused_by_field(name: str, value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        ReadFramesArgs(execution_id=EXECUTION, attempt_index=0, **{name: value})  # type: ignore[arg-type]
    assert caught.value.field == name


def test_a_read_begins_at_the_start_and_ends_at_the_end() -> None:
    args = ReadFramesArgs(execution_id=EXECUTION, attempt_index=0)
    assert (args.from_id, args.to_id, args.after) == (StreamCursor.start(), StreamCursor.end(), None)
    assert args.visibility is Visibility.ALL


@pytest.mark.parametrize("after", ["start", "end"])
@pytest.mark.parametrize("kind", [TailFramesArgs, FollowFramesArgs])
def test_only_a_concrete_place_can_be_tailed_after(kind: type[FollowFramesArgs], after: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        kind(execution_id=EXECUTION, attempt_index=0, after=StreamCursor(after))
    assert (caught.value.field, caught.value.code) == ("after", "invalid_offset")


@pytest.mark.parametrize("block_ms", [-1, limits.MAX_TAIL_BLOCK_MS + 1])
def test_a_tail_waits_half_a_minute_at_most(block_ms: int) -> None:
    with pytest.raises(InvalidInput) as caught:
        TailFramesArgs(execution_id=EXECUTION, attempt_index=0, block_ms=block_ms)
    assert caught.value.field == "block_ms"


def test_a_stream_has_ended_when_it_is_closed_and_nothing_follows() -> None:
    assert not StreamFrames.empty_open().is_closed
    assert not StreamFrames(closed_at=1, closed_reason="attempt_success", more=True).is_end
    assert StreamFrames(closed_at=1, closed_reason="attempt_success").is_end


def test_the_text_of_a_frame() -> None:
    assert StreamFrame(id="1-0", frame_type="token", payload="tä".encode(), ts=1).text == "tä"
    assert StreamFrame(id="1-0", frame_type="token", payload=b"\xff", ts=1).text == "\ufffd"
