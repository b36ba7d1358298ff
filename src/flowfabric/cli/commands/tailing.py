"""`tail`: print the output stream of an execution as it grows."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from typer import Option

from flowfabric.cli.options import AsJson, Id, Url
from flowfabric.cli.running import on_store
from flowfabric.cli.show.output import Output
from flowfabric.client import frame_values
from flowfabric.client.fabric import Fabric
from flowfabric.client.failures import failure_of
from flowfabric.client.handle import Handle
from flowfabric.client.streaming import StreamItem

From: TypeAlias = Annotated[str | None, Option("--from", metavar="CURSOR", help="Continue after this item.")]
All: TypeAlias = Annotated[bool, Option("--all", help="Print every attempt in turn, not only the latest one.")]


def tail(execution_id: Id, from_: From = None, every: All = False, url: Url = None, as_json: AsJson = False) -> None:
    """Print the output stream of an execution until it ends. Text is printed as it is, other frames one per line.

    Other messages go to stderr: that the output differs from what was printed and is printed again, and how the
    execution ended.
    """

    async def body(fabric: Fabric, out: Output) -> None:
        handle = fabric.handle(execution_id)
        printer = _Printer(out, every)
        async for item in handle.stream(after=from_, attempts="all" if every else "latest"):
            printer.print(item)
        await _tell_end(handle, out, printer)

    on_store(url, as_json, body)


class _Printer:
    """Prints items, and remembers whether the last line is unfinished."""

    def __init__(self, out: Output, every: bool) -> None:
        self._out = out
        self._every = every  # attempts are printed in turn; else a reset separates them
        self._attempt: int | None = None
        self._is_open = False

    def print(self, item: StreamItem) -> None:
        if self._out.as_json:
            self._out.json(_fields(item))
            return
        is_new = self._attempt not in (None, item.attempt_index)
        if item.is_reset or (is_new and self._every):
            self.end_line()
            self._out.note(f"attempt {item.attempt_index}" + ("" if is_new else " begins again"))
        self._attempt = item.attempt_index
        if item.frame is None:
            return
        if item.frame.encoding in (frame_values.TEXT, None):
            self._out.text(item.text)
            self._is_open = not item.text.endswith("\n")
        else:
            self.end_line()
            self._out.line(_one_line(item))

    def end_line(self) -> None:
        if self._is_open:
            self._out.text("\n")
            self._is_open = False


async def _tell_end(handle: Handle[Any], out: Output, printer: _Printer) -> None:
    snapshot = await handle.describe()
    if out.as_json:
        out.json({"public_state": snapshot.public_state})
    else:
        printer.end_line()
    failure = failure_of(snapshot)
    if failure is not None:
        raise failure
    if not out.as_json:
        out.note(snapshot.public_state)


def _fields(item: StreamItem) -> dict[str, Any]:
    found = {"cursor": item.cursor, "attempt_index": item.attempt_index, "type": item.type, "value": item.value}
    frame = item.frame
    if frame is None:
        return found
    given = {"metadata": frame.metadata_json, "correlation_id": frame.correlation_id, "source": frame.source}
    return found | {"at": item.at, "mode": frame.mode} | {name: value for name, value in given.items() if value}


def _one_line(item: StreamItem) -> str:
    assert item.frame is not None
    if item.frame.encoding == frame_values.JSON:
        return item.text
    return f"{item.type}: {len(item.frame.payload)} bytes, {item.frame.encoding}"
