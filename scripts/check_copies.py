"""No two places in src and tests share twelve or more equal lines; a shared block needs a name and one home.

Blank lines and indentation do not count. The check hashes every window of twelve lines.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tests")
SUFFIXES = {".py", ".lua", ".js", ".css", ".html"}
LINES = 12


class Place(NamedTuple):
    path: Path
    at: int  # the position in the lines that count


class Lines:
    """The lines of a file that count, with their numbers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        counted = [(number, line.strip()) for number, line in enumerate(path.read_text().splitlines(), 1)]
        self.numbers = [number for number, line in counted if line]
        self.texts = [line for _, line in counted if line]


def copies(files: list[Lines]) -> Iterator[str]:
    """One line for each pair of places whose equal blocks cannot be extended to the left."""
    by_path = {lines.path: lines for lines in files}
    first: dict[tuple[str, ...], Place] = {}
    for lines in files:
        last_match: Place | None = None
        for index in range(len(lines.texts) - LINES + 1):
            place = Place(lines.path, index)
            other = first.setdefault(tuple(lines.texts[index : index + LINES]), place)
            if other == place or (other.path == lines.path and index - other.at < LINES):
                last_match = None
                continue
            if last_match is None or other != Place(last_match.path, last_match.at + 1):
                yield _problem(by_path[other.path], other.at, lines, index)
            last_match = other


def _problem(one: Lines, at: int, two: Lines, index: int) -> str:
    length = LINES
    while one.texts[at + length : at + length + 1] == two.texts[index + length : index + length + 1] != []:
        length += 1
    return f"{_name(one, at)} and {_name(two, index)} share {length} equal lines"


def _name(lines: Lines, index: int) -> str:
    return f"{lines.path.relative_to(ROOT)}:{lines.numbers[index]}"


def files() -> list[Lines]:
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES]
    return [Lines(path) for path in paths]


if __name__ == "__main__":
    found = list(copies(files()))
    sys.stdout.writelines(f"{each}\n" for each in found)
    sys.exit(1 if found else 0)
