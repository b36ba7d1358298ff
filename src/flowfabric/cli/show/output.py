"""Print JSON on request, colours and tables on a terminal, and plain aligned text into a pipe.

The only module that imports rich.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flowfabric.client.tasks.payloads import to_builtins, to_json
from flowfabric.core.ids import ExecutionId
from flowfabric.core.states import PublicState
from flowfabric.errors import FlowFabricError
from flowfabric.errors.texts import with_short_ids

_COLOURS: Final[Mapping[str, str]] = {
    PublicState.ACTIVE: "cyan",
    PublicState.DELAYED: "magenta",
    PublicState.COMPLETED: "green",
    PublicState.FAILED: "red",
    PublicState.EXPIRED: "red",
    PublicState.CANCELLED: "yellow",
    PublicState.SKIPPED: "yellow",
    "paused": "yellow",
    "draining": "yellow",
    "ok": "green",
    "warn": "yellow",
    "fail": "bold red",
}
_NAME_WIDTH: Final = 8


class Styled(NamedTuple):
    """Text with a style, which a terminal shows."""

    text: str
    style: str


Cell: TypeAlias = str | Styled
Row: TypeAlias = Sequence[Cell]


def coloured(word: str) -> Styled:
    """A state in its colour."""
    return Styled(word, _COLOURS.get(word.strip(), ""))


class Output:
    """Where the results of one command go."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.console = Console(highlight=False, soft_wrap=True)

    @property
    def is_rich(self) -> bool:
        """Whether a person is looking: stdout is a terminal, and JSON was not asked for."""
        return self.console.is_terminal and not self.as_json

    def json(self, value: Any) -> None:
        """One line of JSON."""
        text = _encode(value).decode()
        if self.is_rich:
            self.console.print(Text(text))
        else:
            self.text(f"{text}\n")

    def line(self, *cells: Cell) -> None:
        """One line made of these cells."""
        if self.is_rich:
            self.console.print(Text.assemble(*map(_shown, cells)))
        else:
            sys.stdout.write("".join(map(_plain, cells)) + "\n")
            sys.stdout.flush()

    def text(self, text: str) -> None:
        """A part of a line, flushed at once."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def event(self, name: str, text: str, **fields: Any) -> None:
        """Report an event of a long-running command: a line for people, or a JSON object with the fields."""
        if self.as_json:
            self.json({"event": name, **fields})
        else:
            self.line(Styled(f"{name:<{_NAME_WIDTH}}", "bold"), " ", text)

    def table(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        if self.is_rich:
            self.console.print(rich_table(columns, rows), soft_wrap=False)
        else:
            self.line("\n".join(aligned([columns, *rows])))

    def fields(self, pairs: Sequence[tuple[str, Cell]]) -> None:
        """Names and values, one pair per line."""
        width = max((len(name) for name, _ in pairs), default=0)
        for name, value in pairs:
            self.line(Styled(f"{name:<{width}}  ", "dim"), value)

    def error(self, error: BaseException) -> None:
        """One line on stderr."""
        self.note(to_json({"error": described(error)}).decode() if self.as_json else f"flowfabric: {_one_line(error)}")

    def warn(self, text: str, **details: str) -> None:
        """A warning on stderr: the command has done what it was asked to."""
        warning = {"warning": {"message": text, "details": details}}
        self.note(to_json(warning).decode() if self.as_json else f"flowfabric: warning: {text}")

    def note(self, text: str) -> None:
        """A line on stderr, apart from the results."""
        sys.stderr.write(f"{text}\n")

    @contextmanager
    def live_lines(self) -> Iterator[LiveLines | None]:
        """Lines that are redrawn in place; None without a terminal."""
        if not self.is_rich:
            yield None
            return
        with Live(console=self.console, auto_refresh=False, transient=True, vertical_overflow="crop") as shown:
            yield LiveLines(shown)

    @contextmanager
    def live(self) -> Iterator[LiveTable | None]:
        """A table that is redrawn in place, below other output; None without a terminal."""
        if not self.is_rich:
            yield None
            return
        with Live(console=self.console, auto_refresh=False, transient=True) as shown:
            yield LiveTable(shown)


class LiveLines:
    def __init__(self, shown: Live) -> None:
        self._shown = shown

    def update(self, lines: Sequence[Row]) -> None:
        self._shown.update(Text("\n").join(Text.assemble(*line) for line in lines), refresh=True)


class LiveTable:
    def __init__(self, shown: Live) -> None:
        self._shown = shown

    def update(self, columns: Sequence[str], rows: Sequence[Row], title: str = "") -> None:
        self._shown.update(rich_table(columns, rows, title), refresh=True)


def rich_table(columns: Sequence[str], rows: Sequence[Row], title: str = "") -> Table:
    table = Table(*columns, box=box.SIMPLE_HEAD, title=Text(title) if title else None, title_justify="left")
    for row in rows:
        table.add_row(*(Text.assemble(_shown(cell)) for cell in row))
    return table


def aligned(rows: Sequence[Row]) -> Iterator[str]:
    """Columns two spaces apart, as wide as their widest cell."""
    texts = [[_plain(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        yield "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()


def _plain(cell: Cell) -> str:
    return with_short_ids(cell.text if isinstance(cell, Styled) else cell)


def _shown(cell: Cell) -> Cell:
    """The cell with ids in their form for people."""
    return cell._replace(text=with_short_ids(cell.text)) if isinstance(cell, Styled) else with_short_ids(cell)


def _to_builtins(value: object) -> object:
    """Encoder hook: ids in their form for people, everything else as in payloads."""
    return value.short if isinstance(value, ExecutionId) else to_builtins(value)


_encode: Final = msgspec.json.Encoder(enc_hook=_to_builtins).encode


def described(error: BaseException) -> dict[str, Any]:
    """An error as an object."""
    if isinstance(error, FlowFabricError):
        return {
            "code": error.code,
            "family": str(error.family),
            "message": error.message,
            "retryable": error.retryable,
            "details": error.details,
        }
    code = "timed_out" if isinstance(error, TimeoutError) else "internal"
    message = str(error) if code == "timed_out" else f"{type(error).__name__}: {error}"
    return {"code": code, "family": code, "message": message, "retryable": code == "timed_out", "details": {}}


def _one_line(error: BaseException) -> str:
    found = described(error)
    return " | ".join(part.strip() for part in f"{found['code']}: {found['message']}".splitlines() if part.strip())
