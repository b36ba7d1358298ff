"""How long the random tests run: short in CI, long in `make soak`."""

from __future__ import annotations

import os

SOAK = os.environ.get("FLOWFABRIC_SOAK") == "1"  # noqa: TID251 - tests decide their own length


def examples(short: int, *, soak: int) -> int:
    return soak if SOAK else short
