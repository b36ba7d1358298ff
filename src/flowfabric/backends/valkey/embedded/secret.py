"""The waitpoint secret of an embedded store: a file beside its data, created by the first process.

The store never returns a secret and keeps one copy per partition: two processes that start at the same time with
different secrets would each win some partitions.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from flowfabric.core.tokens import Kid, SecretHex, SigningSecret

FILE: Final = "waitpoint.secret"
EMBEDDED_KID: Final = Kid("embedded")
_BYTES: Final = 32


def own_secret(directory: Path | None) -> SigningSecret:
    """The secret of the store in this directory, created if missing; None is a temporary store."""
    secret = _throw_away_secret() if directory is None else _kept(directory / FILE)
    return SigningSecret(kid=EMBEDDED_KID, secret_hex=SecretHex(secret))


@cache
def _throw_away_secret() -> str:
    """The secret of temporary stores. Only this process can open them, so they share one secret."""
    return secrets.token_hex(_BYTES)


def _kept(path: Path) -> str:
    if not path.exists():
        _make(path)
    return path.read_text().strip()


def _make(path: Path) -> None:
    """Write a new secret to a temporary file, then link it under its name unless it exists, so readers see it whole."""
    aside_fd, aside = tempfile.mkstemp(prefix=f"{FILE}.", dir=path.parent)  # readable only by this user
    try:
        with os.fdopen(aside_fd, "w") as file:
            file.write(secrets.token_hex(_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(aside, path)
    finally:
        os.unlink(aside)
