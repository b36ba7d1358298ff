"""Users with as few rights as the docs give them: they can do their work, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from flowfabric import Settings
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.bundle import LIBRARY_VERSION, bundle
from flowfabric.errors import BackendUnavailable
from tests.load import one_life
from tests.servers import TestServer, start_one_node_cluster, start_standalone

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src/flowfabric/backends/valkey"
PAGE = ROOT / "docs/howto/connect.md"
RULES = {line.split()[2]: line.split()[3:] for line in PAGE.read_text().splitlines() if line.startswith("ACL SETUSER")}
FORBIDDEN = [
    ("FLUSHALL",),
    ("CONFIG", "GET", "*"),
    ("KEYS", "*"),
    ("SCAN", "0"),
    ("RANDOMKEY",),
    ("SHUTDOWN", "NOW"),
    ("ACL", "LIST"),
    ("EVAL", "return 1", "0"),
    ("FUNCTION", "DELETE", "flowfabric"),
    ("FUNCTION", "FLUSH"),
    ("GET", "other"),
    ("SET", "other", "x"),
    ("PUBLISH", "other", "x"),
    ("CLIENT", "KILL", "ID", "1"),
    ("CLUSTER", "FAILOVER"),
    ("MIGRATE", "host", "1", "ff:x", "0", "1"),
]


Place = tuple[TestServer, str]  # a server and the scheme to reach it


@pytest.fixture(scope="module", params=["standalone", "cluster"])
def running(request: pytest.FixtureRequest) -> Iterator[Place]:
    with ExitStack() as stack:
        if request.param == "standalone":
            yield stack.enter_context(start_standalone()), "valkey"
        else:
            yield stack.enter_context(start_one_node_cluster()).nodes[0], "valkey+cluster"


@pytest.fixture
def place(running: Place) -> Place:
    """An empty server with the documented users and without a library."""
    server, _ = running
    server.call("FLUSHALL")
    server.call("FUNCTION", "FLUSH")
    for user, rules in RULES.items():
        server.call("ACL", "SETUSER", user, *rules)
    return running


async def opened(place: Place, user: str) -> ValkeyBackend:
    server, scheme = place
    return await ValkeyBackend.open(Settings(url=f"{scheme}://{user}:secret@{server.host}:{server.port}"))


def refuses(server: TestServer, user: str, *command: str) -> bool:
    return b"no permissions" in server.call("ACL", "DRYRUN", user, *command).lower()


def commands_of_ours() -> set[tuple[str, str]]:
    """Each command that a function calls and that the client sends by itself, with the word after it."""
    by_functions = set(re.findall(r"redis\.p?call\(\s*\"([A-Z]+)\"(?:,\s*\"(\w+)\")?", bundle().text))
    sources = [path.read_text() for path in SOURCES.glob("*.py") if not path.name.startswith("embedded")]
    by_client = set(re.findall(r"(?:execute|send)\(\s*\"([A-Z]+)\"(?:,\s*\"(\w+)\")?", "\n".join(sources)))
    assert {"HSET", "ZADD", "XADD", "TIME"} <= {name for name, _ in by_functions}
    assert {"FCALL", "HGETALL", "CLUSTER", "ASKING"} <= {name for name, _ in by_client}
    return by_functions | by_client


def complete(server: TestServer, name: str, word: str) -> list[str]:
    """The command with its subcommand, if it has one, and with as many arguments as it must have."""
    (sub,) = server.call("COMMAND", "INFO", f"{name}|{word}")
    (whole,) = server.call("COMMAND", "INFO", name)
    command = [name, word] if sub else [name]
    filler = "0" if name == "FCALL" else "ff:x"
    return command + [filler] * (abs((sub or whole)[1]) - len(command))


async def test_a_worker_lives_on_a_library_that_an_operator_loaded(place: Place) -> None:
    server, _ = place
    operator = await opened(place, "operator")
    await operator.close()
    assert server.call("FCALL", "ff_version", 0) == str(LIBRARY_VERSION).encode()
    worker = await opened(place, "worker")
    await one_life(worker)
    await worker.close()


async def test_a_worker_without_a_library_is_told_what_it_may_not_do(place: Place) -> None:
    with pytest.raises(BackendUnavailable, match=r"worker has no permissions to run the 'function\|load' command"):
        await opened(place, "worker")


async def test_a_user_without_rights_is_told_so_at_once(place: Place) -> None:
    place[0].call("ACL", "SETUSER", "nobody", "on", ">secret", "+@connection")
    with pytest.raises(BackendUnavailable, match=r"nobody has no permissions to run the '(hgetall|cluster\|shards)'"):
        await opened(place, "nobody")


def test_every_command_of_ours_is_allowed(place: Place) -> None:
    server, _ = place
    for name, word in commands_of_ours():
        command = complete(server, name, word)
        for user in RULES:
            assert server.call("ACL", "DRYRUN", user, *command) == b"OK", (user, command)


def test_nothing_else_is_allowed(place: Place) -> None:
    server, _ = place
    assert sorted(RULES) == ["operator", "worker"]
    for user in RULES:
        for command in FORBIDDEN:
            assert refuses(server, user, *command), (user, command)
    assert refuses(server, "worker", "FUNCTION", "LOAD", "x")
    assert not refuses(server, "operator", "FUNCTION", "LOAD", "x")
