"""Remember which text belongs to which library version; a test compares it with the bundle."""

from __future__ import annotations

import json
from pathlib import Path

from flowfabric.backends.valkey.library.bundle import bundle

LOCK = Path(__file__).resolve().parent.parent / "tests" / "golden" / "library.json"

if __name__ == "__main__":
    current = bundle()
    LOCK.write_text(json.dumps({"version": current.version, "sha256": current.sha256}, indent=2) + "\n")
