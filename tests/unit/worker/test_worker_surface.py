"""What the worker's classes show: few public names, and enough of them for the test kit."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from flowfabric import testing
from flowfabric.worker import ClaimedTask, Worker


@pytest.mark.parametrize("kind", [ClaimedTask, Worker])
def test_a_class_of_the_worker_has_at_most_twenty_public_methods(kind: type) -> None:
    assert len([name for name in dir(kind) if not name.startswith("_")]) <= 20


@pytest.mark.parametrize("path", sorted(Path(testing.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_the_test_kit_uses_no_private_name_of_other_objects(path: Path) -> None:
    found = [
        ast.unparse(node)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and not _is_self(node.value)
    ]
    assert found == []


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_self(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in ("self", "cls")
