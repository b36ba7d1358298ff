"""The embedded server when processes are killed: members, keepers, servers, in any order."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path

import pytest

from flowfabric.backends.valkey.embedded import keeper
from flowfabric.backends.valkey.embedded.server import EmbeddedServer
from flowfabric.backends.valkey.wire.client import Client, StandaloneClient
from flowfabric.backends.valkey.wire.open_client import open_client
from flowfabric.backends.valkey.wire.url import parse_url
from flowfabric.config import Settings
from flowfabric.errors import BackendUnavailable
from tests.servers import eventually_async, is_alive, kill9, member_process


def keeper_pid(directory: Path) -> int:
    return int((directory / keeper.KEEPER_LOCK).read_text())


def server_pid(directory: Path) -> int:
    return int((directory / keeper.SERVER_LOCK).read_text() or 0)  # empty for the moment in which it is rewritten


async def test_killed_members_are_not_waited_for(tmp_path: Path) -> None:
    with member_process(tmp_path) as one, member_process(tmp_path) as two:
        guard = keeper_pid(tmp_path)
        kill9(one.pid)
        assert is_alive(two.server_pid)
        kill9(two.pid)
        await eventually_async(lambda: not is_alive(two.server_pid), "the keeper stops the server")
        await eventually_async(lambda: not is_alive(guard), "the keeper ends")


async def test_a_killed_member_leaves_no_throw_away_directory() -> None:
    with member_process(None) as member:
        kill9(member.pid)
        await eventually_async(lambda: not member.directory.exists(), "the directory is removed")
        assert not is_alive(member.server_pid)


async def test_every_acknowledged_write_survives_a_killed_server(tmp_path: Path) -> None:
    settings = Settings(url=f"embedded://{tmp_path}")
    client = await open_client(settings)
    acknowledged: set[bytes] = set()
    writers = [asyncio.create_task(_write(client, f"{n}", acknowledged)) for n in range(16)]
    killed = 0
    for _ in range(3):
        killed = await _kill_while_it_writes(tmp_path, killed, acknowledged)
    last = await _writing_server(tmp_path, killed, acknowledged)
    for writer in writers:
        writer.cancel()
    await asyncio.gather(*writers, return_exceptions=True)
    await asyncio.to_thread(kill9, last)
    assert acknowledged <= await _members_of(client)
    await client.close()
    reopened = await open_client(settings)
    assert acknowledged <= await _members_of(reopened)
    await reopened.close()


async def _kill_while_it_writes(directory: Path, predecessor: int, acknowledged: set[bytes]) -> int:
    pid = await _writing_server(directory, predecessor, acknowledged)
    await asyncio.to_thread(kill9, pid)
    return pid


async def _writing_server(directory: Path, predecessor: int, acknowledged: set[bytes]) -> int:
    """The server after `predecessor`, once it has acknowledged writes of its own.

    The lock names the dead server until its successor starts, and its last replies are read after its death.
    """
    await eventually_async(lambda: server_pid(directory) not in (0, predecessor), "a successor has started")
    before = len(acknowledged)
    await eventually_async(lambda: len(acknowledged) >= before + 500, "writes go on")
    return server_pid(directory)


async def _write(client: Client, name: str, acknowledged: set[bytes]) -> None:
    for n in range(1_000_000):
        item = f"{name}:{n}"
        try:
            await client.execute("SADD", "items", item)
        except BackendUnavailable:
            continue  # perhaps carried out, not acknowledged
        acknowledged.add(item.encode())


async def _members_of(client: Client) -> set[bytes]:
    reply = await client.execute("SMEMBERS", "items", repeatable=True)
    assert isinstance(reply, list)
    return {item for item in reply if isinstance(item, bytes)}


async def test_a_killed_server_gets_a_new_keeper_with_its_successor(tmp_path: Path) -> None:
    server = await EmbeddedServer.join(tmp_path)
    first, guard = server_pid(tmp_path), keeper_pid(tmp_path)
    await asyncio.to_thread(kill9, first)
    await server.ensure_running()
    second = server_pid(tmp_path)
    assert second != first
    assert is_alive(second)
    await eventually_async(lambda: not is_alive(guard), "the first keeper has ended")
    await server.leave()
    assert not is_alive(second)


async def test_a_server_that_lost_its_keeper_is_adopted_by_who_joins(tmp_path: Path) -> None:
    first = await EmbeddedServer.join(tmp_path)
    pid, guard = server_pid(tmp_path), keeper_pid(tmp_path)
    await asyncio.to_thread(kill9, guard)
    second = await EmbeddedServer.join(tmp_path)
    assert server_pid(tmp_path) == pid
    assert is_alive(keeper_pid(tmp_path))
    await first.leave()
    assert is_alive(pid)
    await second.leave()
    assert not is_alive(pid)


async def test_a_server_that_lost_its_keeper_is_stopped_by_the_last_to_leave(tmp_path: Path) -> None:
    server = await EmbeddedServer.join(tmp_path)
    pid = server_pid(tmp_path)
    await asyncio.to_thread(kill9, keeper_pid(tmp_path))
    assert is_alive(pid)
    await server.leave()
    assert not is_alive(pid)


async def test_an_adopted_server_that_is_killed_is_started_again(tmp_path: Path) -> None:
    server = await EmbeddedServer.join(tmp_path)
    await asyncio.to_thread(kill9, keeper_pid(tmp_path))
    await server.ensure_running()  # which adopts
    adopter = keeper_pid(tmp_path)
    await asyncio.to_thread(kill9, server_pid(tmp_path))
    await server.ensure_running()
    assert is_alive(server_pid(tmp_path))
    await eventually_async(lambda: not is_alive(adopter), "the keeper of the dead server has ended")
    await server.leave()


async def test_a_throw_away_server_without_keeper_and_server_is_removed() -> None:
    server = await EmbeddedServer.join()
    await asyncio.to_thread(kill9, keeper_pid(server.directory))
    await asyncio.to_thread(kill9, server_pid(server.directory))
    await server.leave()
    assert not server.directory.exists()


async def test_data_survives_when_everything_is_killed(tmp_path: Path) -> None:
    with member_process(tmp_path) as member:
        path = tmp_path / "server.sock"
        client = StandaloneClient(parse_url(f"valkey+unix://{path}"), Settings())
        await client.execute("SET", "a", "kept")
        guard = keeper_pid(tmp_path)
        for pid in (guard, member.server_pid, member.pid):  # a keeper without members would stop the server itself
            await asyncio.to_thread(kill9, pid)
        await client.close()
    again = await open_client(Settings(url=f"embedded://{tmp_path}"))
    assert await again.execute("GET", "a") == b"kept"
    await again.close()


async def test_a_keeper_told_to_stop_takes_its_server_along(tmp_path: Path) -> None:
    client = await open_client(Settings(url=f"embedded://{tmp_path}"))
    await client.execute("SET", "a", 1)
    pid = server_pid(tmp_path)
    os.kill(keeper_pid(tmp_path), signal.SIGTERM)
    await eventually_async(lambda: not is_alive(pid), "the server is stopped")
    assert await client.execute("GET", "a", repeatable=True) == b"1"
    await client.close()


@pytest.mark.parametrize("seed", range(8))
async def test_a_member_killed_at_any_moment_of_its_start_blocks_nobody(tmp_path: Path, seed: int) -> None:
    with member_process(tmp_path, wait=False) as victim:
        await asyncio.sleep(random.Random(seed).uniform(0.05, 0.35))  # the moment is the point of the test
        kill9(victim.pid)
        server = await EmbeddedServer.join(tmp_path)
        assert keeper.is_listening(str(server.socket_path))
        pid = server_pid(tmp_path)
        await server.leave()
        assert not is_alive(pid)
