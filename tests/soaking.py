"""How long the random tests run: short in CI, long in `make soak`, which also shows what was measured."""

from __future__ import annotations

import os

import pytest

from tests.stores.probe import Store

SOAK = os.environ.get("FLOWFABRIC_SOAK") == "1"  # noqa: TID251 - tests decide their own length


def examples(short: int, *, soak: int) -> int:
    return soak if SOAK else short


def lives(store: Store, short: int, *, soak: int) -> int:
    """How many random lives a test runs on this kind of store."""
    return max(1, examples(short, soak=soak) // store.nth_life)


def tell(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Print a figure: past the capture in a long run, else for who asks with -s and beside a failure."""
    if not SOAK:
        print(text)
        return
    with capsys.disabled():
        print(f"\n{text}")
