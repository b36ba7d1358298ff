"""Tables of figures and goals: with colours on a terminal where rich is installed, plain anywhere else, or JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.figures import Spread
from benchmarks.peers.driver import NOT_INSTALLED
from benchmarks.peers.results import Results
from benchmarks.peers.systems import SYSTEMS, System
from benchmarks.server import AOF

HINT = ": python -m benchmarks.peers.install"


@dataclass(frozen=True)
class Goal:
    """A figure and what it should be. Without a figure, what it needs was not measured."""

    name: str
    figure: Spread | None
    limit: float
    at_least: bool = True

    @property
    def met(self) -> bool | None:
        if self.figure is None:
            return None
        return self.figure.median >= self.limit if self.at_least else self.figure.median <= self.limit

    def row(self) -> list[str]:
        verdict = {True: "met", False: "MISSED", None: "not measured"}[self.met]
        return [self.name, str(self.figure or "-"), f"{'>=' if self.at_least else '<='} {self.limit:g}", verdict]


@dataclass(frozen=True)
class Table:
    """The first column is text, the others are figures."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def show(self) -> None:
        if not (sys.stdout.isatty() and self._show_rich()):
            self._show_plain()

    def _show_rich(self) -> bool:
        try:
            from rich import console, table  # noqa: PLC0415 - optional
        except ImportError:
            return False
        grid = table.Table(title=self.title, title_justify="left")
        for number, head in enumerate(self.heads):
            grid.add_column(head, justify="right" if number else "left", overflow="fold")  # no digit is lost
        for row in self.rows:
            grid.add_row(*row, style="red" if "MISSED" in row else None)
        console.Console().print(grid)
        return True

    def _show_plain(self) -> None:
        widths = [max(map(len, column)) for column in zip(self.heads, *self.rows, strict=True)]
        print(f"{self.title}\n")
        for first, *others in (self.heads, *self.rows):
            cells = (f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
            print("  ".join((f"{first:<{widths[0]}}", *cells)).rstrip())
        print()


def options(doc: str | None, systems: Iterable[System] = SYSTEMS) -> argparse.ArgumentParser:
    """The options that every comparison has."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = {system.name: system for system in systems}

    def named(text: str) -> list[System]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"unknown system {unknown[0]!r}: there are {', '.join(known)}")
        return [known[name] for name in known if name in names]

    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--budget", type=float, default=270.0, help="seconds; fewer repetitions when they take longer")
    parser.add_argument("--only", type=named, default=list(known.values()), help=f"of {','.join(known)}")
    parser.add_argument("--aof", choices=list(AOF), default="no", help="the server's append-only file")
    return parser


def publish(
    given: argparse.Namespace, results: Results, facts: Mapping[str, Any], table: Table, goals: Sequence[Goal]
) -> None:
    """Everything that was measured, with which versions and which settings."""
    if given.json:
        told = [asdict(goal) | {"met": goal.met} for goal in goals]
        everything = {"machine": machine(), "systems": facts, "runs": results.facts(), "goals": told}
        print(json.dumps(everything | {"failures": results.failures}, indent=2))
        return
    table.show()
    for name, reason in results.failures.items():
        print(f"{name}: {reason}{HINT if reason == NOT_INSTALLED else ''}")
    Table("goals, median (low-high)", ("", "figure", "goal", ""), [goal.row() for goal in goals]).show()
    print(", ".join(f"{name} {value}" for name, value in machine().items()), f"append-only file {given.aof}", sep=", ")
    for name, told in facts.items():
        settings = "; ".join(f"{role}: {words(given)}" for role, given in told["settings"].items() if given)
        print(f"{name}: {words(told['versions'])}; {settings or 'defaults'}")


def unmeasured(reason: str, heads: Sequence[str]) -> list[str]:
    """The cells of a system without figures."""
    return [reason if reason == NOT_INSTALLED else "failed", *["-"] * (len(heads) - 2)]


def words(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def whole(spread: Spread | None) -> str:
    return f"{spread.median:,.0f} ({spread.low:,.0f}-{spread.high:,.0f})" if spread else "-"


def machine() -> dict[str, str]:
    return {"python": platform.python_version(), "system": platform.platform(), "processors": str(os.cpu_count())}
