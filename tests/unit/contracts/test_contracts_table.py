"""docs/reference/contracts.md is complete, and what it calls done exists."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import NamedTuple

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts, limits
from tests.unit.looping import for_each

ROOT = Path(__file__).parents[3]
SEEDS: dict[str, list[str]] = json.loads((ROOT / "tests" / "golden" / "contract_names.json").read_text())


class Row(NamedTuple):
    seed: str
    where: str
    python: str
    port: str
    test: str
    status: str


def _rows() -> list[Row]:
    text = (ROOT / "docs" / "reference" / "contracts.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith(("| `", "| - "))]
    return [Row(*(cell.strip().strip("`") for cell in line.strip("|").split("|"))) for line in lines]


ROWS = _rows()


def test_every_seed_name_has_exactly_one_row() -> None:
    listed = [row.seed for row in ROWS if row.seed != "-"]
    assert sorted(listed) == sorted(set(SEEDS["0.2.0"]) | set(SEEDS["later"]))


def test_each_row_says_where_its_name_comes_from() -> None:
    for row in ROWS:
        origins = [version for version, names in SEEDS.items() if row.seed in names]
        expected = {0: "ours", 1: origins[0] if origins else "", 2: "both"}[len(origins)]
        assert row.where == expected, row


@for_each(row for row in ROWS if row.python != "-")
def test_a_python_name_can_be_imported(row: Row) -> None:
    module, _, name = f"flowfabric.core.{row.python}".rpartition(".")
    if "." not in row.python:
        module = "flowfabric.core.contracts"
    assert hasattr(importlib.import_module(module), name)


def test_the_port_of_a_done_row_exists() -> None:
    for row in ROWS:
        if row.status == "done" and row.port != "-":
            assert hasattr(EngineBackend, row.port), row


def test_every_contract_is_done_and_has_a_name_and_a_test() -> None:
    for row in ROWS:
        assert row.status == "done", row
        assert row.python != "-", row
        assert row.test != "-", row


def test_the_tests_exist() -> None:
    written = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert not {row.test for row in ROWS} - written - {"-"}


def test_no_contract_is_missing_from_the_table() -> None:
    listed = {row.python for row in ROWS}
    public = [name for name in contracts.__all__ if name.endswith(("Args", "Result", "Outcome", "Grant", "Snapshot"))]
    assert public
    assert not set(public) - listed


def test_the_constants_have_the_values_of_the_seeds() -> None:
    assert limits.STREAM_READ_HARD_CAP == 10_000
    assert limits.MAX_COMPOSITE_DEPTH == 4
    assert limits.DEFAULT_MAX_RECLAIM_COUNT == 100
    assert limits.DEFAULT_LEASE_HISTORY_GRACE_MS == 60_000
