"""The waitpoint secret of an embedded store: a file beside its data, which whoever comes first makes.

The store itself never gives a secret back, and has one copy for each partition: two processes that came at the same
time with secrets of their own would each win some of them.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

FILE: Final = "waitpoint.secret"
_BYTES: Final = 32


def new_secret() -> str:
    """A signing secret, in hex."""
    return secrets.token_hex(_BYTES)


def kept_secret(directory: Path) -> str:
    """The secret of the store in this directory, made if it has none."""
    path = directory / FILE
    if not path.exists():
        _make(path)
    return path.read_text().strip()


def _make(path: Path) -> None:
    """Write a new secret aside, then give it its name unless another one has it: a reader finds it whole."""
    aside_fd, aside = tempfile.mkstemp(prefix=f"{FILE}.", dir=path.parent)  # for nobody else to read
    try:
        with os.fdopen(aside_fd, "w") as file:
            file.write(new_secret() + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(aside, path)
    finally:
        os.unlink(aside)
