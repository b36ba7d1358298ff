"""Items of event streams, and frames as items."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from flowfabric.backends.http.shapes import to_wire
from flowfabric.client.streaming import StreamItem
from flowfabric.core import contracts as c

_MOST_KEPT: Final = 2_048
_MOST_KEPT_BYTES: Final = 4_096


class Item(NamedTuple):
    """One event: its kind, its data, and the cursor after it."""

    kind: str
    data: object
    id: str = ""

    def encode(self) -> bytes:
        head = f"id: {self.id}\n" if self.id else ""
        return f"{head}event: {self.kind}\ndata: ".encode() + to_wire(self.data) + b"\n\n"


class EncodedFrames:
    """The latest frames in encoded form; the first reader of an execution encodes them for all."""

    def __init__(self) -> None:
        self._texts: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    def of(self, execution_id: str, item: StreamItem) -> bytes:
        key = (execution_id, item.cursor)
        text = self._texts.get(key)
        if text is None:
            text = _item(item).encode()
            if len(text) <= _MOST_KEPT_BYTES:
                self._texts[key] = text
            if len(self._texts) > _MOST_KEPT:
                self._texts.popitem(last=False)
        return text


def _item(item: StreamItem) -> Item:
    if item.frame is None:
        return Item("reset", {"attempt_index": item.attempt_index}, item.cursor)
    return Item("frame", _frame(item.attempt_index, item.frame, item.value), item.cursor)


def _frame(attempt_index: int, frame: c.StreamFrame, value: object) -> dict[str, object]:
    """Text and JSON as `value`, other bytes as `base64`."""
    content = {"base64": frame.payload} if isinstance(value, bytes) else {"value": value}
    return {
        "attempt_index": attempt_index,
        "id": frame.id,
        "type": frame.frame_type,
        "mode": frame.mode,
        "at_ms": frame.ts,
        **content,
    }
