"""The output that stands: what one undisturbed run of the handler would have shown.

A later attempt has a stream of its own, a later pass of an attempt begins with a mark, and another mark stands where
a pass skipped a recorded step. `Standing` turns frames into items: it puts the output of skipped steps in its place,
and resets the reader when a later pass emits something else than what the reader has seen. While a pass emits the same
again, as after a wait, it shows nothing twice.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from flowfabric.backends.ports import EngineBackend
from flowfabric.client.stream_items import Place, StreamItem
from flowfabric.core import contracts as c
from flowfabric.core.contracts.frame_marks import RERUN, STEP, StepOutput, is_mark
from flowfabric.core.cursor import StreamCursor
from flowfabric.core.ids import ExecutionId
from flowfabric.errors import ExecutionNotFound

_PAGE: Final = 500
# What a reader remembers; beyond, a later pass always resets it.
_MOST_SEEN: Final = 4_000
_MOST_SEEN_BYTES: Final = 524_288
_DURABLE: Final = str(c.StreamMode.DURABLE)

_type_of: Final = attrgetter("frame_type")
_payload_of: Final = attrgetter("payload")


class Standing:
    """The items of one reader, attempt after attempt."""

    def __init__(self, backend: EngineBackend, execution_id: ExecutionId, live: bool, *, from_start: bool) -> None:
        self._backend = backend
        self._execution_id = execution_id
        self._visibility = c.Visibility.ALL if live else c.Visibility.EXCLUDE_BEST_EFFORT
        self._seen: list[c.StreamFrame] = []  # since the last reset
        self._seen_bytes = 0
        self._knows_all = from_start  # whether `_seen` has all of them
        self._pass: StreamItem | None = None  # the reset of a later pass whose frames are still compared
        self._held: list[StreamItem] = []  # its items so far, which the reader has seen from an earlier pass
        self._matched = 0

    def begin(self, reset: StreamItem) -> None:
        """A later pass begins, in the same attempt or in another one. It is compared with what the reader has seen."""
        self._pass, self._held, self._matched = reset, [], 0
        self._seen = [frame for frame in self._seen if frame.mode == _DURABLE]
        if self._knows_all and not self._seen:
            self._pass = None

    def is_plain(self, frames: Sequence[c.StreamFrame]) -> bool:
        """Whether the frames can be shown as they are; then they are noted as shown.

        It runs for every page, so it has no loop of its own: most streams have neither marks nor a later pass.
        """
        if self._pass is not None or any(map(is_mark, set(map(_type_of, frames)))):
            return False
        self._note(frames)
        return True

    async def items(self, index: int, page: c.StreamFrames) -> AsyncGenerator[StreamItem, None]:
        """The items of a page with marks. Frames before the last pass of the page are void."""
        frames = page.frames
        passes = [at for at, frame in enumerate(frames) if frame.frame_type == RERUN]
        if passes:
            frames = frames[passes[-1] :]
            self.begin(StreamItem(index, None, frames[0].id))
        for frame in frames:
            if frame.frame_type == STEP:
                async for item in self._of_step(index, frame):
                    for shown in self._shown(item):
                        yield shown
            elif not is_mark(frame.frame_type):
                for shown in self._shown(StreamItem(index, frame)):
                    yield shown
        if page.is_end and self._pass is not None:  # the last pass emitted less than an earlier one
            for shown in self._differs():
                yield shown

    async def resumed(self, place: Place) -> AsyncGenerator[StreamItem, None]:
        """The rest of a step's output that was being shown at this place."""
        at = StreamCursor(place.entry_id)
        args = c.ReadFramesArgs(
            execution_id=self._execution_id, attempt_index=place.attempt_index, from_id=at, to_id=at, count_limit=1
        )
        for frame in (await self._backend.read_attempt_stream(args)).frames:
            if frame.frame_type == STEP:
                async for item in self._of_step(place.attempt_index, frame, after=place.inner):
                    yield item

    # A later pass.

    def _shown(self, item: StreamItem) -> Iterator[StreamItem]:
        """The item, unless the reader has seen it from an earlier pass."""
        if self._pass is None:
            self._note([item.frame] if item.frame else [])
            yield item
            return
        self._held.append(item)
        frame = item.frame
        if not self._knows_all or frame is None:
            yield from self._differs()
        elif frame.mode != _DURABLE:  # not compared: the store does not keep all of them
            if not item.place:
                yield item
        elif not _are_same(self._seen[self._matched], frame):
            yield from self._differs()
        else:
            self._matched += 1
            if self._matched == len(self._seen):
                self._pass, self._held = None, []

    def _differs(self) -> Iterator[StreamItem]:
        """Reset the reader, and show what the pass has emitted."""
        reset, held = self._pass, self._held
        self._pass, self._held = None, []
        self._forget()
        if reset is not None:
            yield reset
        self._note([item.frame for item in held if item.frame])
        yield from held

    def _note(self, frames: Sequence[c.StreamFrame]) -> None:
        if not self._knows_all:
            return
        self._seen += frames
        self._seen_bytes += sum(map(len, map(_payload_of, frames)))
        if len(self._seen) > _MOST_SEEN or self._seen_bytes > _MOST_SEEN_BYTES:
            self._forget()
            self._knows_all = False

    def _forget(self) -> None:
        self._seen, self._seen_bytes, self._knows_all = [], 0, True

    # The output of a skipped step.

    async def _of_step(
        self, index: int, mark: c.StreamFrame, after: str | None = None
    ) -> AsyncGenerator[StreamItem, None]:
        try:
            output = msgspec.json.decode(mark.metadata_json or "", type=StepOutput)
        except msgspec.DecodeError:  # another program made it
            return
        known = [frame for frame in self._seen if frame.step_run == output.run] if after is None else []
        if known and len(known) == output.count:  # the reader has them all
            for frame in known:
                yield StreamItem(index, frame, f"{mark.id}/{frame.id}")
            return
        async for frame in self._read(output, after):
            yield StreamItem(index, frame, f"{mark.id}/{frame.id}")

    async def _read(self, output: StepOutput, after: str | None) -> AsyncGenerator[c.StreamFrame, None]:
        args = c.ReadFramesArgs(
            execution_id=ExecutionId(output.execution_id) if output.execution_id else self._execution_id,
            attempt_index=output.attempt_index,
            from_id=StreamCursor(output.first_id) if output.first_id else StreamCursor.start(),
            to_id=StreamCursor(output.last_id) if output.last_id else StreamCursor.end(),
            after=StreamCursor(after) if after else None,
            count_limit=_PAGE,
            visibility=self._visibility,
        )
        more = True
        while more:
            try:
                page = await self._backend.read_attempt_stream(args)
            except ExecutionNotFound:  # the execution that this one was forked from was deleted
                return
            for frame in page.frames:
                if frame.step_run == output.run:
                    yield frame
            more, args = page.more, msgspec.structs.replace(args, after=StreamCursor(page.cursor))


def _are_same(one: c.StreamFrame, other: c.StreamFrame) -> bool:
    return one.payload == other.payload and one.frame_type == other.frame_type and one.encoding == other.encoding
