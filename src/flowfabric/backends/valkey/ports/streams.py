"""StreamPort on Valkey: one stream per attempt, created by its first frame; payloads are raw bytes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import Fields, FunctionCaller, at_once, parse_envelope
from flowfabric.backends.valkey.library.records import number, optional_number, reading
from flowfabric.backends.valkey.listen.frame_tail import Follower, FrameTails
from flowfabric.backends.valkey.ports.executions import fence_args
from flowfabric.backends.valkey.rows.frames import frame_of, group_item
from flowfabric.core import contracts as c
from flowfabric.core.codec import to_msgpack
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import ExecutionId
from flowfabric.errors import BadReply, ExecutionNotFound, FlowFabricError

# Few enough to block the server for milliseconds only.
_FRAMES_A_CALL: Final = 1_000
_BYTES_A_CALL: Final = 1_048_576
_BYTES_A_PAGE: Final = 1_048_576


class ValkeyStreams:
    """Output streams of attempts."""

    _caller: FunctionCaller
    _frame_tails: FrameTails

    async def append_frame(self, args: c.AppendFrameArgs) -> c.AppendFrameResult:
        live = args.live
        fields = await self._caller.call_execution(
            "append_frame",
            args.execution_id,
            **fence_args(args.fence),
            attempt_index=args.attempt_index,
            frame_type=args.frame_type,
            ts=args.timestamp,
            payload=args.payload,
            encoding=args.encoding or "",
            correlation_id=args.correlation_id or "",
            source=args.source or "",
            retention_maxlen=args.retention_maxlen or 0,
            max_payload_bytes=args.max_payload_bytes,
            stream_mode=args.mode,
            patch_kind=args.patch_kind if args.mode is c.StreamMode.SUMMARY else "",
            ttl_ms=live.ttl_ms,
            maxlen_floor=live.maxlen_floor,
            maxlen_ceiling=live.maxlen_ceiling,
            ema_alpha=repr(live.ema_alpha),
            metadata_json=args.metadata_json or "",
            retention_ms=args.retention_ms or 0,
            step_run=args.step_run or "",
        )
        version = fields.text(2)
        return c.FrameAppended(
            entry_id=fields.text(0), frame_count=fields.number(1), summary_version=int(version) if version else None
        )

    async def append_frames(self, batch: Sequence[c.AppendFramesArgs]) -> list[b.AppendFramesOutcome]:
        outcomes: list[b.AppendFramesOutcome | None] = [None] * len(batch)
        groups: dict[str, list[int]] = defaultdict(list)
        for at, args in enumerate(batch):
            groups[args.execution_id.tag].append(at)

        async def append(tag: str, places: list[int]) -> None:
            if not self._caller.is_partition(tag):
                for at in places:
                    outcomes[at] = self._caller.no_partition("execution_id", batch[at].execution_id)
                return
            for some in _calls(batch, places):  # sequentially: they may belong to one attempt
                for at, outcome in zip(some, await self._append(tag, [batch[at] for at in some]), strict=True):
                    outcomes[at] = outcome

        await at_once(append(tag, places) for tag, places in groups.items())
        return [outcome for outcome in outcomes if outcome is not None]

    async def _append(self, tag: str, items: list[c.AppendFramesArgs]) -> list[b.AppendFramesOutcome]:
        fields = await self._caller.call_partition(
            "append_frames",
            tag,
            groups=to_msgpack([group_item(args) for args in items]),
            payloads=[frame.payload for args in items for frame in args.frames],
        )
        replies = fields.values[0]
        if not isinstance(replies, list):
            raise BadReply(f"append_frames: {type(replies).__name__} in place of the outcomes")
        return [_appended(args, reply) for args, reply in zip(items, replies, strict=True)]

    async def read_attempt_stream(self, args: c.ReadFramesArgs) -> c.StreamFrames:
        from_id = args.from_id.to_wire() if args.after is None else f"({args.after}"
        begins_at = "0-0" if args.after is None else str(args.after)
        return await self._read_page(args, from_id, args.to_id.to_wire(), begins_at)

    async def tail_attempt_stream(self, args: c.TailFramesArgs) -> c.StreamFrames:
        async with self._frame_tails.follow(args, self._read_after) as follower:
            page = await follower.peek()
            if page.frames or page.is_closed or args.block_ms == 0:
                return page
            try:
                async with asyncio.timeout(args.block_ms / 1000):
                    return await follower.next()
            except TimeoutError:
                return c.StreamFrames(cursor=page.cursor)

    @asynccontextmanager
    async def follow_attempt_stream(self, args: c.FollowFramesArgs) -> AsyncIterator[Follower]:
        async with self._frame_tails.follow(args, self._read_after) as follower:
            yield follower

    async def describe_stream(self, execution_id: ExecutionId, attempt_index: int) -> c.StreamInfo:
        fields = await self._caller.call_execution("describe_stream", execution_id, attempt_index=attempt_index)
        with reading("stream of execution", execution_id):
            meta = fields.mapping(0)
            times = {name: number(meta, name) for name in ("created_at", "last_frame_at") if name in meta}
            return c.StreamInfo(
                execution_id=execution_id,
                attempt_index=attempt_index,
                length=fields.number(1),
                frame_count=optional_number(meta, "frame_count") or 0,
                total_bytes=optional_number(meta, "total_bytes") or 0,
                first_id=fields.text(2) or None,
                last_id=fields.text(3) or None,
                closed_at=fields.number(4) if fields.raw(4) else None,
                closed_reason=fields.text(5) or None,
                summary_version=fields.number(6),
                **times,
            )

    async def read_summary(self, execution_id: ExecutionId, attempt_index: int) -> c.SummaryDocument | None:
        named = {"summary": keys.summary(execution_id, attempt_index)}
        fields = await self._caller.call("read_summary", named, {}, subject=execution_id)
        if not fields.raw(0):
            return None
        with reading("summary of execution", execution_id):
            return c.SummaryDocument(
                document=fields.raw(0),
                version=fields.number(1),
                patch_kind=c.PatchKind(fields.text(2)),
                last_updated_ms=fields.number(3),
                first_applied_ms=fields.number(4),
            )

    async def _read_after(self, args: c.FollowFramesArgs, after: str) -> c.StreamFrames:
        return await self._read_page(args, f"({after}", "+", after)

    async def _read_page(
        self, args: c.FollowFramesArgs | c.ReadFramesArgs, from_id: str, to_id: str, begins_at: str
    ) -> c.StreamFrames:
        stream = keys.stream(args.execution_id, args.attempt_index)
        fields = await self._caller.call(
            "read_attempt_stream",
            {"stream": stream, "stream_meta": f"{stream}:meta"},
            {
                "from_id": from_id,
                "to_id": to_id,
                "count_limit": args.count_limit,
                "visibility": args.visibility,
                "max_bytes": _BYTES_A_PAGE,
            },
            subject=args.execution_id,
        )
        if fields.text(5) == "nothing":
            raise ExecutionNotFound(f"{args.execution_id}: no such execution", execution_id=args.execution_id)
        with reading("stream of execution", args.execution_id):
            return _frames_from(fields, begins_at)


def _frames_from(fields: Fields, begins_at: str) -> c.StreamFrames:
    entries = fields.values[0]
    if not isinstance(entries, list):
        raise BadReply(f"{fields.operation}: {type(entries).__name__} in place of the frames")
    return c.StreamFrames(
        frames=tuple(map(frame_of, entries)),
        cursor=fields.text(3) or begins_at,
        more=fields.text(4) == "1",
        closed_at=fields.number(1) if fields.raw(1) else None,
        closed_reason=fields.text(2) or None,
    )


def _calls(batch: Sequence[c.AppendFramesArgs], places: list[int]) -> Iterator[list[int]]:
    """Split a partition's items into calls; the frames of one item stay together."""
    some: list[int] = []
    frames = size = 0
    for at in places:
        count, length = len(batch[at].frames), sum(len(frame.payload) for frame in batch[at].frames)
        if some and (frames + count > _FRAMES_A_CALL or size + length > _BYTES_A_CALL):
            yield some
            some, frames, size = [], 0, 0
        some.append(at)
        frames, size = frames + count, size + length
    if some:
        yield some


def _appended(args: c.AppendFramesArgs, reply: object) -> b.AppendFramesOutcome:
    try:
        fields = parse_envelope("append_frames", reply, args.execution_id)  # type: ignore[arg-type]
    except FlowFabricError as error:
        return error
    version = fields.text(1)
    return c.FramesAppended(
        entry_ids=tuple(fields.texts(2)),
        frame_count=fields.number(0),
        summary_version=int(version) if version else None,
    )
