"""The walks of the architecture page name files and functions that exist, and count their hops."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src/flowfabric"
PAGE = (ROOT / "docs/explanation/architecture.md").read_text()
CITATION = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|lua))(?::(\w+))?`")


class Walk(NamedTuple):
    title: str
    text: str

    @property
    def steps(self) -> list[str]:
        """Its numbered items, each with the lines that belong to it."""
        return re.findall(r"^\d+\. .*(?:\n +\S.*)*", self.text, re.MULTILINE)


WALKS = [Walk(*part.split("\n", 1)) for part in re.split(r"^## ", PAGE, flags=re.MULTILINE) if part.startswith("Walk ")]


@cache
def _functions(file: str) -> set[str]:
    """The functions and methods that a file defines; of Lua, those of its module and its own."""
    path = SOURCE / "backends/valkey" / file if file.startswith("lua/") else SOURCE / file
    text = path.read_text()
    if path.suffix == ".lua":
        return set(re.findall(r"function (?:M\.)?(\w+)", text))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)}


@pytest.mark.parametrize(
    ("file", "function"),
    sorted(set(CITATION.findall(PAGE))),
    ids=lambda part: part.replace("/", "."),  # the table of suites goes by folders
)
def test_what_the_page_names_exists(file: str, function: str) -> None:
    functions = _functions(file)
    assert not function or function in functions


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.title)
def test_a_walk_counts_its_hops(walk: Walk) -> None:
    said = re.search(r"Hops:\s+(\d+),\s+of\s+which\s+wire\s+(\d+),\s+callback\s+(\d+)\.", walk.text)
    assert said is not None
    wire, callback = (sum(f"(**{kind}**)" in step for step in walk.steps) for kind in ("wire", "callback"))
    assert [int(number) for number in said.groups()] == [len(walk.steps) - 1, wire, callback]


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.title)
def test_each_step_begins_with_a_function_of_another_file(walk: Walk) -> None:
    starts = [CITATION.match(step.split(". ", 1)[1]) for step in walk.steps]
    files = [start[1] if start else None for start in starts]
    assert None not in files
    assert all(before != after for before, after in pairwise(files))
    assert [step.split(".")[0] for step in walk.steps] == [str(number) for number in range(1, len(files) + 1)]


def test_there_are_three_walks() -> None:
    assert len(WALKS) == 3
