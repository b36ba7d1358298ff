"""`python -m flowfabric.cli` is `flowfabric`."""

from __future__ import annotations

from flowfabric.cli import main

if __name__ == "__main__":
    main()
