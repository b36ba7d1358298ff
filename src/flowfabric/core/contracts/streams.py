"""Streams: the frames that an attempt emits, the summary built from them, and the reads of both."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import msgspec

from flowfabric.core import codec, limits
from flowfabric.core.contracts.fields import Checked, DurationMs, Encoding, Outcome, Rule
from flowfabric.core.contracts.lease import LeaseFence
from flowfabric.core.cursor import StreamCursor
from flowfabric.core.ids import AttemptIndex, ExecutionId, TimestampMs
from flowfabric.errors import InvalidInput


def _label(low: int, high: int) -> Rule:
    return Rule(lambda field, value: limits.label(field, value, low, high))


def _frame_payload(field: str, value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise InvalidInput(field, value, "must be bytes")
    _check_size(value, limits.MAX_FRAME_PAYLOAD_BYTES)
    return value


def _metadata(field: str, value: Any) -> str:
    limits.text(field, value, 1, limits.FRAME_METADATA_MAX_BYTES)
    codec.from_json(Any, value, root=field)
    return str(value)


def _alpha(field: str, value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value <= 1:
        raise InvalidInput(field, value, "must be a number above 0, at most 1")
    return float(value)


FrameType: TypeAlias = Annotated[str, _label(1, limits.FRAME_TYPE_MAX_BYTES)]
FrameLabel: TypeAlias = Annotated[str, _label(1, limits.FRAME_LABEL_MAX_BYTES)]
FramePayload: TypeAlias = Annotated[bytes, Rule(_frame_payload)]
MetadataJson: TypeAlias = Annotated[str, Rule(_metadata)]
RetentionMaxlen: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_RETENTION_MAXLEN)]
PayloadLimit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=limits.MAX_FRAME_PAYLOAD_BYTES)]
LiveFloor: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_LIVE_FRAMES)]
LiveCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=limits.MAX_LIVE_FRAMES)]
Alpha: TypeAlias = Annotated[float, Rule(_alpha)]
FrameNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_SAFE_INTEGER)]
FrameCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=limits.STREAM_READ_HARD_CAP)]
BlockMs: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_TAIL_BLOCK_MS)]


class StreamMode(StrEnum):
    """How a frame is kept."""

    DURABLE = "durable"  # kept for the stream's retention
    SUMMARY = "summary"  # its payload is a patch of the summary, which is kept
    BEST_EFFORT = "best_effort"  # only the newest are kept, for live readers


class PatchKind(StrEnum):
    """How a summary frame changes the summary."""

    JSON_MERGE_PATCH = "json-merge-patch"  # RFC 7396; the text "__ff_null__" sets a member to null


class Visibility(StrEnum):
    """Which frames a reader sees."""

    ALL = "all"
    EXCLUDE_BEST_EFFORT = "exclude_best_effort"


class LiveFrames(Checked, frozen=True, kw_only=True):
    """How many best-effort frames are kept: about twice the number within `ttl_ms`, within the two bounds.

    A stream with only such frames is deleted after twice `ttl_ms` without a new one; with 0 it is kept.
    """

    ttl_ms: DurationMs = 0
    maxlen_floor: LiveFloor = 64
    maxlen_ceiling: LiveCount = limits.DEFAULT_MAX_LIVE_FRAMES
    ema_alpha: Alpha = 0.2  # the weight of the latest frames in the rate

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.maxlen_ceiling < self.maxlen_floor:
            raise InvalidInput("maxlen_ceiling", self.maxlen_ceiling, f"must be at least {self.maxlen_floor}")


class Frame(Checked, frozen=True, kw_only=True):
    """A piece of output. Payloads are bytes; writer and reader agree on their meaning."""

    frame_type: FrameType
    payload: FramePayload
    encoding: Encoding | None = None
    metadata_json: MetadataJson | None = None
    correlation_id: FrameLabel | None = None
    source: FrameLabel | None = None
    timestamp: TimestampMs | None = None  # when it was created; None: when it is appended
    mode: StreamMode = StreamMode.DURABLE
    patch_kind: PatchKind = PatchKind.JSON_MERGE_PATCH  # of a summary frame
    live: LiveFrames = LiveFrames()  # of a best-effort frame
    step_run: FrameLabel | None = None  # the run of a step that emitted it; later passes refer to it

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode is StreamMode.SUMMARY:
            codec.from_json(dict[str, Any], self.payload, root="payload")


class AppendFrameArgs(Frame, frozen=True, kw_only=True):
    """The owner of the running attempt appends one frame."""

    execution_id: ExecutionId
    attempt_index: AttemptIndex
    fence: LeaseFence
    retention_maxlen: RetentionMaxlen | None = None  # keep exactly this many; None and 0: about what the policy allows
    retention_ms: DurationMs | None = None  # older frames are deleted; None and 0: no age limit
    max_payload_bytes: PayloadLimit = limits.FRAME_PAYLOAD_MAX_BYTES

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_size(self.payload, self.max_payload_bytes)


class FrameAppended(Outcome, frozen=True, kw_only=True, tag="appended"):
    """The frame's id, which is a cursor, and the number of frames appended so far, trimmed ones included."""

    entry_id: str
    frame_count: int
    summary_version: int | None = None


AppendFrameResult: TypeAlias = FrameAppended


def _frames(field: str, value: Any) -> tuple[Frame, ...]:
    if not isinstance(value, tuple | list) or not all(isinstance(each, Frame) for each in value):
        raise InvalidInput(field, value, "must be a list of frames")
    if not 1 <= len(value) <= limits.MAX_FRAMES_AT_ONCE:
        raise InvalidInput(field, len(value), f"must be 1 to {limits.MAX_FRAMES_AT_ONCE} frames")
    return tuple(value)


Frames: TypeAlias = Annotated[tuple[Frame, ...], msgspec.Meta(max_length=limits.MAX_FRAMES_AT_ONCE), Rule(_frames)]


class AppendFramesArgs(Checked, frozen=True, kw_only=True):
    """The owner appends several frames of one attempt, in this order: all of them, or none.

    Frames appended in this way under one lease are numbered from 0, and `first_number` is the number of the
    first. So a repeated call appends nothing twice, and a call that overtakes another is refused.
    """

    execution_id: ExecutionId
    attempt_index: AttemptIndex
    fence: LeaseFence
    first_number: FrameNumber
    frames: Frames
    retention_maxlen: RetentionMaxlen | None = None
    retention_ms: DurationMs | None = None
    max_payload_bytes: PayloadLimit = limits.FRAME_PAYLOAD_MAX_BYTES

    def __post_init__(self) -> None:
        super().__post_init__()
        for frame in self.frames:
            _check_size(frame.payload, self.max_payload_bytes)


class FramesAppended(Outcome, frozen=True, kw_only=True, tag="appended"):
    """The frames are in the stream; `entry_ids` are those this call appended, which a repeated call may not know."""

    entry_ids: tuple[str, ...]
    frame_count: int
    summary_version: int | None = None


AppendFramesResult: TypeAlias = FramesAppended


class StreamFrame(msgspec.Struct, frozen=True, kw_only=True):
    """A frame as it is read; `id` is its position in the stream, and a cursor."""

    id: str
    frame_type: str
    payload: bytes
    ts: TimestampMs
    encoding: str | None = None
    metadata_json: str | None = None
    correlation_id: str | None = None
    source: str | None = None
    mode: str = StreamMode.DURABLE  # a StreamMode; text, because a newer library may have more modes
    summary_version: int | None = None
    ttl_ms: int | None = None
    step_run: str | None = None

    @property
    def text(self) -> str:
        """The payload as UTF-8, with replacement characters for invalid bytes."""
        return self.payload.decode(errors="replace")


class ReadFramesArgs(Checked, frozen=True, kw_only=True):
    """Frames of one attempt from `from_id` to `to_id`, both included; with `after`, the frames after it instead."""

    execution_id: ExecutionId
    attempt_index: AttemptIndex
    from_id: StreamCursor = msgspec.field(default_factory=StreamCursor.start)
    to_id: StreamCursor = msgspec.field(default_factory=StreamCursor.end)
    after: StreamCursor | None = None
    count_limit: FrameCount = 100
    visibility: Visibility = Visibility.ALL

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.after is not None:
            _check_concrete("after", self.after)


class FollowFramesArgs(Checked, frozen=True, kw_only=True):
    """Follow the frames of one attempt after `after`, up to `count_limit` at a time."""

    execution_id: ExecutionId
    attempt_index: AttemptIndex
    after: StreamCursor = msgspec.field(default_factory=lambda: StreamCursor("0-0"))
    count_limit: FrameCount = 100
    visibility: Visibility = Visibility.ALL

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_concrete("after", self.after)


class TailFramesArgs(FollowFramesArgs, frozen=True, kw_only=True):
    """Read one page of them, waiting for the first frame."""

    block_ms: BlockMs = 0


class StreamFrames(Outcome, frozen=True, kw_only=True, tag="frames"):
    """A page of frames, with the cursor for the next page and whether the stream is closed.

    A page of large frames is short: it holds about one mebibyte. `more`: there may be frames after `cursor`
    already. A closed stream without more frames has ended.
    """

    frames: tuple[StreamFrame, ...] = ()
    cursor: str = "0-0"
    more: bool = False
    closed_at: TimestampMs | None = None
    closed_reason: str | None = None

    @classmethod
    def empty_open(cls) -> StreamFrames:
        """Whether there are no frames yet."""
        return cls()

    @property
    def is_closed(self) -> bool:
        """Whether its writer has ended."""
        return self.closed_at is not None

    @property
    def is_end(self) -> bool:
        """Whether no frame follows, now or later."""
        return self.is_closed and not self.more


ReadFramesResult: TypeAlias = StreamFrames


class StreamInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an attempt's stream. Without frames it does not exist, and is closed when the attempt has ended."""

    execution_id: ExecutionId
    attempt_index: AttemptIndex
    length: int = 0  # readable frames
    frame_count: int = 0  # appended frames
    total_bytes: int = 0
    first_id: str | None = None
    last_id: str | None = None
    created_at: TimestampMs | None = None
    last_frame_at: TimestampMs | None = None
    closed_at: TimestampMs | None = None
    closed_reason: str | None = None
    summary_version: int = 0

    @property
    def is_closed(self) -> bool:
        return self.closed_at is not None


class SummaryDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The document built from an attempt's summary frames: a JSON object, and the number of frames applied."""

    document: bytes
    version: int
    patch_kind: PatchKind
    first_applied_ms: TimestampMs
    last_updated_ms: TimestampMs


def _check_size(payload: bytes, most: int) -> None:
    if len(payload) > most:
        problem = f"must be at most {most} bytes long, it has {len(payload)}"
        raise InvalidInput("payload", payload[:16], problem, code="retention_limit_exceeded")


def _check_concrete(field: str, cursor: StreamCursor) -> None:
    if not cursor.is_concrete:
        raise InvalidInput(field, cursor, "must be the id of a frame, or 0-0 for all of them", code="invalid_offset")
