"""Find words that our prose does not use; scripts/words.toml lists them with the better wording."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_name("words.toml")
SUFFIXES = {".py", ".lua", ".js", ".html", ".md"}
# Between two words of a phrase: a space, or a line break with the comment sign of the next line.
GAP = r"\s+(?:(?:--|#|//|\*)\s+)?"


class Hit(NamedTuple):
    path: Path
    line: int
    phrase: str


def pattern(phrases: list[str]) -> re.Pattern[str]:
    """All phrases as one pattern, the longest first, so that a hit names the whole phrase."""
    longest_first = sorted(phrases, key=len, reverse=True)
    alternatives = "|".join(GAP.join(map(re.escape, phrase.split())) for phrase in longest_first)
    return re.compile(rf"(?<![\w-])(?:{alternatives})(?![\w-])", re.IGNORECASE)


def hits(text: str, words: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    for match in words.finditer(text):
        phrase = re.sub(GAP, " ", match[0]).lower()
        yield text.count("\n", 0, match.start()) + 1, phrase


def pages() -> list[Path]:
    top = [path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"]
    below = [path for folder in ("src", "docs") for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    return sorted([*top, *below])


def found(words: re.Pattern[str]) -> Iterator[Hit]:
    for path in pages():
        for line, phrase in hits(path.read_text(), words):
            yield Hit(path.relative_to(ROOT), line, phrase)


def main() -> int:
    better: dict[str, str] = tomllib.loads(LIST.read_text())["words"]
    problems = list(found(pattern(list(better))))
    for hit in problems:
        sys.stdout.write(f'{hit.path}:{hit.line}: "{hit.phrase}": {better[hit.phrase]}\n')
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
