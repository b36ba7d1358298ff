"""Whether this runs in CI, where a check that cannot run is a failure."""

from __future__ import annotations

import os


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")  # noqa: TID251 - the tools' own, not the product's
