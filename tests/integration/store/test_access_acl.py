"""Users with as few rights as the docs give them: each can do its whole work, and nothing else."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import valkey

from flowfabric import ByName, Context, Count, CountKind, Engine, Fabric, Settings, Worker
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.library.bundle import LIBRARY_VERSION, bundle
from flowfabric.client.secrets import ensure_secret
from flowfabric.core import contracts as c
from flowfabric.core.tokens import Kid, SecretHex
from flowfabric.errors import BackendUnavailable, FlowFabricError
from flowfabric.server.http.listener import listening
from flowfabric.server.settings import ServerSettings
from tests.load import one_life
from tests.servers import TestServer, start_one_node_cluster, start_standalone
from tests.valkey.wire.suspension_wire import Waiting, named

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "src/flowfabric/backends/valkey"
PAGE = ROOT / "docs/howto/secure.md"
RULES = {line.split()[2]: line.split()[3:] for line in PAGE.read_text().splitlines() if line.startswith("ACL SETUSER")}
ALL = ["client", "engine", "foreign", "observer", "operator", "server", "worker"]
OURS = ["client", "engine", "server", "worker"]  # programs of ours that write
SECRET = "ff:sec:{fp:0}:waitpoint_hmac"
FORBIDDEN = [
    ("FLUSHALL",),
    ("FLUSHDB",),
    ("CONFIG", "GET", "*"),
    ("KEYS", "*"),
    ("RANDOMKEY",),
    ("SHUTDOWN", "NOW"),
    ("ACL", "LIST"),
    ("ACL", "SETUSER", "x"),
    ("EVAL", "return 1", "0"),
    ("SCRIPT", "LOAD", "return 1"),
    ("FUNCTION", "DELETE", "flowfabric"),
    ("FUNCTION", "FLUSH"),
    ("FUNCTION", "LIST"),
    ("FUNCTION", "DUMP"),
    ("GET", "other"),
    ("SET", "other", "x"),
    ("PUBLISH", "other", "x"),
    ("CLIENT", "KILL", "ID", "1"),
    ("CLIENT", "LIST"),
    ("CLUSTER", "FAILOVER"),
    ("MIGRATE", "host", "1", "ff:x", "0", "1"),
    ("REPLICAOF", "NO", "ONE"),
    ("DEBUG", "OBJECT", "ff:x"),
    ("MONITOR",),
    ("SAVE",),
]
# Each way to see a secret, to change it, and to change what is known of it.
ABOUT_SECRETS = [
    ("HGETALL", SECRET),
    ("HGET", SECRET, "secret:k1"),
    ("HMGET", SECRET, "secret:k1"),
    ("HVALS", SECRET),
    ("HSCAN", SECRET, "0"),
    ("DUMP", SECRET),
    ("COPY", SECRET, "ff:exec:{fp:0}:x"),
    ("RENAME", SECRET, "ff:exec:{fp:0}:x"),
    ("OBJECT", "ENCODING", SECRET),
]
CHANGES = [
    ("HSET", SECRET, "secret:k1", "00"),
    ("DEL", SECRET),
    ("HSET", "ff:kid:{fp:0}", "mark:k1", "00"),
    ("HSET", "ff:config:partitions", "num_flow_partitions", "1"),
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
    server.call("ACL", "LOG", "RESET")
    for user, rules in RULES.items():
        server.call("ACL", "SETUSER", user, *rules)
    return running


def settings_of(place: Place, user: str, **more: Any) -> Settings:
    server, scheme = place
    return Settings(url=f"{scheme}://{user}:secret@{server.host}:{server.port}", **more)


async def opened(place: Place, user: str) -> ValkeyBackend:
    return await ValkeyBackend.open(settings_of(place, user))


@asynccontextmanager
async def as_user(place: Place, user: str) -> AsyncIterator[ValkeyBackend]:
    backend = await opened(place, user)
    try:
        yield backend
    finally:
        await backend.close()


async def set_up(place: Place) -> None:
    """What an operator does first: the library, and the secret."""
    settings = settings_of(place, "operator", waitpoint_secret=secrets.token_hex(32))
    async with Fabric.connect(settings) as fabric:
        await ensure_secret(fabric.backend, settings)


def denials(place: Place) -> list[tuple[str, str]]:
    """What the server has refused: who, and which command or key."""
    found = [dict(zip(each[::2], each[1::2], strict=True)) for each in place[0].call("ACL", "LOG")]
    return [(each[b"username"].decode(), each[b"object"].decode()) for each in found]


def refuses(server: TestServer, user: str, *command: str) -> bool:
    return b"no permissions" in server.call("ACL", "DRYRUN", user, *command).lower()


def commands_of_ours() -> set[tuple[str, str]]:
    """Each command that a function calls and that the client sends by itself, with the word after it."""
    by_functions = set(re.findall(r"(?:redis\.p?call|call)\(\s*\"([A-Z]+)\"(?:,\s*\"(\w+)\")?", bundle().text))
    sources = [path.read_text() for path in SOURCES.rglob("*.py") if path.parent.name != "embedded"]
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


work = Worker(lanes=["default"])


@work.task(retry=2)
async def everything(ctx: Context) -> str:
    """Steps, frames, progress, a retry, a link given out before the wait, waits of one and of two waitpoints."""
    await ctx.emit("begun")
    await ctx.step("first", lambda: 1)
    if ctx.attempt_index == 0:
        raise OSError("no route")
    ctx.progress(50, "half")
    at = await ctx.waitpoint("boss")
    await ctx.step("link", lambda: at.token.reveal() and 1)
    said = await ctx.wait_for_signal("decision", at=at)
    both = Count(2, CountKind.DISTINCT_WAITPOINTS, ("ada", "linus"), ByName("approve"))
    await ctx.wait_for(both)
    return str(said.payload)


@work.task
async def double(number: int) -> int:
    return 2 * number


class TestEachUserDoesItsWork:
    async def test_engine_worker_client_and_server_together(self, place: Place) -> None:
        await set_up(place)
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            engine, worker, client, server = [
                await enter(as_user(place, user)) for user in ("engine", "worker", "client", "server")
            ]
            await enter(Engine(engine))
            await enter(work.working(worker))
            fabric = Fabric(client)
            url = await enter(listening(server, ServerSettings(port=0)))
            http = await enter(httpx.AsyncClient(base_url=url, timeout=20))
            handle = await fabric.submit(everything)
            async with fabric.flow("sum") as flow:
                flow.add(double, flow.add(double, 2))
            assert await fabric.flow_handle(flow.id).wait(timeout=20) == "completed"
            await handle.signal("decision", "yes", wait=20)
            for key in ("ada", "linus"):
                await answered(handle, http, key)
            assert await handle.result(timeout=20) == "yes"
            assert {item.text async for item in handle.stream(attempts="all")} == {"begun"}
            assert (await http.get("/readyz")).status_code == 200
            made = await http.post("/v1/executions", json={"task": "double", "args": [4]})
            other = fabric.handle(made.json()["execution_id"])
            assert await other.result(timeout=20) == 8
            assert await fabric.explain(other.id)
            await (await fabric.submit(double.with_options(lane="nobody"), 1)).cancel()
        assert denials(place) == []

    async def test_an_observer_looks_at_everything(self, place: Place) -> None:
        await set_up(place)
        async with as_user(place, "worker") as worker:
            await one_life(worker)
            handle = await Fabric(worker).submit(double, 2)
        async with as_user(place, "observer") as observer:
            fabric = Fabric(observer)
            assert {each.execution_id for each in (await fabric.list()).executions} > {handle.id}
            seen = fabric.handle(handle.id)
            assert (await seen.history()).events
            assert await seen.describe()
            assert (await seen.waitpoints()).entries == ()
            assert await fabric.explain(seen.id)
            assert await fabric.counts()
            assert (await fabric.workers()).workers == ()
            assert (await fabric.flows()).flows == ()
            assert (await observer.read_events(c.ReadEventsArgs(owners=True))).owners
            assert await observer.wait_for_execution(handle.id, timeout_ms=50) is None
            assert denials(place) == []
            with pytest.raises(FlowFabricError, match="permissions"):
                await fabric.submit(double, 3)
            with pytest.raises(FlowFabricError, match="permissions"):
                await seen.cancel()

    async def test_an_operator_rotates_secrets_and_tokens_of_the_old_one_are_void(self, place: Place) -> None:
        await set_up(place)
        async with as_user(place, "operator") as operator, as_user(place, "worker") as worker:
            handle = await Fabric(worker).submit(everything)
            async with work.working(worker), Engine(operator):
                waited = (await suspension_of(handle)).waitpoint_key
                link = await handle.link("decision", waitpoint=waited)
                args = c.RotateWaitpointHmacSecretAllArgs(
                    new_kid=Kid("k9"), new_secret_hex=SecretHex(secrets.token_hex(32)), grace_ms=0, end_graces=True
                )
                await operator.rotate_waitpoint_hmac_secret_all(args)
                with pytest.raises(FlowFabricError, match=r"invalid_token|token_expired"):
                    await Fabric(worker).signal(link, "no")
                await Fabric(worker).signal(await handle.link("decision", waitpoint=waited), "yes")
        assert denials(place) == []

    async def test_a_foreign_program_calls_the_functions_itself(self, place: Place) -> None:
        await set_up(place)
        server, _ = place
        with valkey.Valkey(host=server.host, port=server.port, username="foreign", password="secret") as client:
            x = Waiting(client)
            x.run()
            assert x.suspend(named("approval"))[0] == 1
            assert x.deliver()[3] == "resume_condition_satisfied"
        assert denials(place) == []


async def suspension_of(handle: Any) -> c.PendingWaitpointInfo:
    """Where it waits, as soon as it does."""
    async for event in handle.events():
        if event.event == "suspended":
            return next(each for each in (await handle.waitpoints()).entries if each.state == "active")
    raise AssertionError("it has ended")


async def answered(handle: Any, http: httpx.AsyncClient, key: str) -> None:
    """By the link of one of the two, through the server."""
    async for event in handle.events():
        if event.event == "suspended" and key in [each.waitpoint_key for each in (await handle.waitpoints()).entries]:
            break
    link = httpx.URL(await handle.link("approve", waitpoint=key))
    answer = await http.post(link.raw_path.decode())
    assert answer.status_code == 200, answer.text


async def test_a_worker_lives_on_a_library_that_an_operator_loaded(place: Place) -> None:
    server, _ = place
    await set_up(place)
    assert server.call("FCALL", "ff_version", 0) == str(LIBRARY_VERSION).encode()
    async with as_user(place, "worker") as worker:
        await one_life(worker)


@pytest.mark.parametrize("user", [*OURS, "observer"])
async def test_whoever_finds_no_store_is_told_what_it_may_not_do(place: Place, user: str) -> None:
    with pytest.raises(BackendUnavailable, match="let an operator open it first"):
        await opened(place, user)


async def test_whoever_finds_no_library_is_told_what_it_may_not_do(place: Place) -> None:
    await set_up(place)
    place[0].call("FUNCTION", "FLUSH")
    with pytest.raises(BackendUnavailable, match=r"worker has no permissions to run the 'function\|load' command"):
        await opened(place, "worker")


async def test_a_user_without_rights_is_told_so_at_once(place: Place) -> None:
    place[0].call("ACL", "SETUSER", "nobody", "on", ">secret", "+@connection")
    with pytest.raises(BackendUnavailable, match=r"nobody has no permissions to run the '(hgetall|cluster\|shards)'"):
        await opened(place, "nobody")


def test_every_command_of_ours_is_allowed_to_those_who_write(place: Place) -> None:
    server, _ = place
    for name, word in commands_of_ours():
        command = complete(server, name, word)
        for user in ["operator", "foreign", "engine", "server", "worker"]:
            if name != "FUNCTION":
                assert server.call("ACL", "DRYRUN", user, *command) == b"OK", (user, command)


def test_nothing_else_is_allowed(place: Place) -> None:
    server, _ = place
    assert sorted(RULES) == ALL
    for user in RULES:
        for command in FORBIDDEN:
            assert refuses(server, user, *command), (user, command)
        if user != "operator":
            assert refuses(server, user, "FUNCTION", "LOAD", "x")
            assert refuses(server, user, "SCAN", "0")
            for command in CHANGES:
                assert refuses(server, user, *command), (user, command)
    assert not refuses(server, "operator", "FUNCTION", "LOAD", "x")
    assert not refuses(server, "operator", "SCAN", "0")  # by which it sees that a store is nobody else's


@pytest.mark.parametrize("user", [*OURS, "observer"])
async def test_no_secret_is_read_by_any_way(place: Place, user: str) -> None:
    await set_up(place)
    server, _ = place
    assert server.call("HGETALL", SECRET)
    for command in ABOUT_SECRETS:
        assert refuses(server, user, *command), command
    with valkey.Valkey(host=server.host, port=server.port, username=user, password="secret") as client:
        for function in ("ff_list_waitpoint_hmac_kids", "ff_seed_waitpoint_hmac_secret"):
            with pytest.raises(valkey.ResponseError, match=r"can't be accessed|permissions|ACL failure"):
                client.fcall(function, 1, SECRET, "k1", "ab" * 32)


def test_an_observer_writes_nothing_and_says_nothing(place: Place) -> None:
    server, _ = place
    for command in (
        ("SET", "ff:exec:x", "1"),
        ("DEL", "ff:exec:x"),
        ("HSET", "ff:exec:x", "a", "b"),
        ("PUBLISH", "ff:wake:default", "x"),
        ("SUBSCRIBE", "ff:wake:default"),
    ):
        assert refuses(server, "observer", *command), command
    assert refuses(server, "client", "SUBSCRIBE", "ff:wake:default")
    assert refuses(server, "client", "HSET", "ff:worker:{workers}:x:caps", "a", "b")
    assert refuses(server, "worker", "ZADD", "ff:engine:{engines}:shares", "1", "x")
