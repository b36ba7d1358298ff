"""Where signals and suspensions differ from the original on purpose, a test says so and fails on its behaviour."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

WIRE = Path(__file__).parents[1] / "wire"
DECISIONS = [f"D{number}" for number in range(1, 10)]


def _claims() -> dict[str, list[str]]:
    """The tests of each decision: their docstring begins with its name and says what the original did."""
    found: dict[str, list[str]] = {name: [] for name in DECISIONS}
    for path in sorted(WIRE.glob("test_*_wire.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
                continue
            doc = ast.get_docstring(node) or ""
            for name in DECISIONS:
                if name in doc.split(":")[0].split(", "):
                    found[name].append(doc)
    return found


@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_has_a_test_that_names_what_the_original_did(name: str) -> None:
    docs = _claims()[name]
    assert docs
    assert all("original" in doc for doc in docs)
