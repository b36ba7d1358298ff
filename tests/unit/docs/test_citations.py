"""A citation in the code (G6, D23) leads to its explanation, and what the explanations name exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXPLANATION = ROOT / "docs/explanation"
PAGES = {"G": (EXPLANATION / "guarantees.md").read_text(), "D": (EXPLANATION / "decisions.md").read_text()}
LUA = ROOT / "src/flowfabric/backends/valkey/lua"


def _cited() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix in (".py", ".lua"):
            for kind, number in re.findall(r"\b([GD])(\d{1,2})\b", path.read_text()):
                yield kind + number, str(path.relative_to(ROOT))


def _anchors(kind: str) -> list[str]:
    return re.findall(rf'<a id="({kind.lower()}\d+)">', PAGES[kind])


def test_every_citation_in_the_code_is_explained() -> None:
    known = {*_anchors("G"), *_anchors("D")}
    assert [cited for cited in _cited() if cited[0].lower() not in known] == []


@pytest.mark.parametrize(("kind", "count"), [("G", 13), ("D", 31)])
def test_each_is_explained_once_and_in_order(kind: str, count: int) -> None:
    assert _anchors(kind) == [f"{kind.lower()}{number}" for number in range(1, count + 1)]


def test_guarantees_name_only_tests_that_exist() -> None:
    existing = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    named = set(re.findall(r"`(test_\w+\.py)`", PAGES["G"]))
    assert named
    assert named <= existing


def test_decisions_name_only_files_that_exist() -> None:
    named = set(re.findall(r"`lua/(\S+\.lua)`", PAGES["D"]))
    assert named
    assert [name for name in named if not (LUA / name).exists()] == []
