"""Bearer tokens: a file lists the digest, scopes and namespaces of each.

The file is reloaded when it changes. To rotate a token, add the new one and remove the old one later.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec

from flowfabric.backends.http.operations import Scope
from flowfabric.core import limits
from flowfabric.core.codec import from_json, to_json
from flowfabric.errors import FlowFabricError, InvalidInput

_logger: Final = logging.getLogger("flowfabric.server")

ALL: Final = "*"
_LOOK_S: Final = 1.0  # how soon a change of the file is noticed
_BYTES: Final = 32
_WRITABLE: Final = stat.S_IWGRP | stat.S_IWOTH
_PREFIX: Final = "fft_"  # the prefix that secret scanners look for


class Token(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of the file."""

    name: str
    sha256: str
    scopes: tuple[Scope, ...]
    namespaces: tuple[str, ...] = (ALL,)

    def __post_init__(self) -> None:
        limits.label("name", self.name, 1, limits.CREATOR_IDENTITY_MAX_BYTES)

    def allows(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes

    @property
    def is_for_all(self) -> bool:
        return ALL in self.namespaces

    def is_for(self, namespace: str) -> bool:
        return self.is_for_all or namespace in self.namespaces


# The caller of a server without tokens, which only this machine can reach.
ANYBODY: Final = Token(name="anybody", sha256="", scopes=(Scope.ADMIN,))


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def new_token(name: str, scopes: Iterable[Scope], namespaces: Iterable[str] = (ALL,)) -> tuple[str, Token]:
    """The text of a token, which is shown once, and its entry."""
    text = _PREFIX + secrets.token_urlsafe(_BYTES)
    return text, Token(name=name, sha256=digest_of(text), scopes=tuple(scopes), namespaces=tuple(namespaces))


class Tokens:
    """The tokens of one file; without a file every caller is admitted."""

    def __init__(self, path: str, clock: Callable[[], float] = monotonic) -> None:
        self._path = Path(path) if path else None
        self._clock = clock
        self._looked_at = float("-inf")
        self._version = (-1, -1, -1, -1)
        self._by_digest: dict[str, Token] = {}
        self._refresh()

    def find(self, authorization: str | None) -> Token:
        """The token of this header."""
        if self._path is None:
            return ANYBODY
        kind, _, text = (authorization or "").partition(" ")
        if kind.lower() != "bearer" or not text.strip():
            raise FlowFabricError("give a token: `Authorization: Bearer <token>`", code="unauthorized")
        self._refresh()
        found = self._by_digest.get(digest_of(text.strip()))
        if found is None:
            raise FlowFabricError("unknown token", code="unauthorized")
        return found

    def _refresh(self) -> None:
        now = self._clock()
        if self._path is None or now - self._looked_at < _LOOK_S:
            return
        self._looked_at = now
        try:
            self._read_changed(self._path)
        except InvalidInput as problem:
            if not self._by_digest:
                raise
            _logger.error("cannot reload the token file; keeping the current tokens: %s", problem)

    def _read_changed(self, path: Path) -> None:
        try:
            found = path.stat()
        except OSError as error:
            raise _unread(path, error) from None
        version = (found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size)  # ctime: changes of mode
        if version != self._version:
            self._by_digest = {each.sha256: each for each in read_tokens(path)}
            self._version = version


def write_tokens(path: Path, tokens: Sequence[Token]) -> None:
    """Replace the file atomically: a reader sees the old entries or the new ones."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        new.touch(mode=0o600)
        new.write_bytes(to_json(tokens))
        new.replace(path)
    except OSError as error:
        raise InvalidInput("tokens", str(path), f"cannot be written: {error.strerror}") from None


def read_tokens(path: Path) -> list[Token]:
    """The entries of a file: a JSON list."""
    try:
        with path.open("rb") as file:
            check_owner(path, os.fstat(file.fileno()))
            text = file.read()
    except OSError as error:
        raise _unread(path, error) from None
    return from_json(list[Token], text, root="tokens")


def check_owner(path: Path, file: os.stat_result) -> None:
    """Refuse a file that other users can write, as ssh does; warn if they can read it.

    It holds digests of long random texts, so a reader cannot use any of them.
    """
    if os.name != "posix":
        return
    folder = path.resolve().parent
    found = folder.stat()
    if file.st_mode & _WRITABLE:
        raise InvalidInput("tokens", str(path), f"has {_mode(file)}: others may write it; run: chmod 600 {path}")
    if file.st_uid not in (0, os.geteuid()):
        raise InvalidInput(
            "tokens", f"{path} of user {file.st_uid}", "must be owned by root or by the user of the server"
        )
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        problem = f"its folder is writable by all users; run: chmod o-w {folder}"
        raise InvalidInput("tokens", f"{folder} of {_mode(found)}", problem)
    if found.st_mode & stat.S_IWGRP and not found.st_mode & stat.S_ISVTX:
        _logger.warning("the group of %s may replace the tokens in %s; run: chmod g-w %s", folder, path, folder)
    if file.st_mode & (stat.S_IRGRP | stat.S_IROTH):
        _logger.warning("others may read %s, which is %s; run: chmod 600 %s", path, _mode(file), path)


def _mode(found: os.stat_result) -> str:
    return f"mode {stat.S_IMODE(found.st_mode):o}"


def _unread(path: Path, error: OSError) -> InvalidInput:
    return InvalidInput("tokens", str(path), f"cannot be read: {error.strerror}; `flowfabric token new` makes it")


def check_scope(token: Token, *scopes: Scope) -> None:
    """Refuse a token that has none of the scopes; the first is the one to ask for."""
    if not any(map(token.allows, scopes)):
        has = ", ".join(token.scopes) or "none"
        needed = " or ".join(scopes)
        problem = f"the token {token.name!r} lacks the scope {needed}; it has: {has}"
        raise FlowFabricError(problem, code="forbidden", scope=str(scopes[0]))


def check_namespace(token: Token, namespace: str) -> None:
    if not token.is_for(namespace):
        raise FlowFabricError(
            f"the token {token.name!r} is for {', '.join(token.namespaces)} only", code="forbidden", namespace=namespace
        )
