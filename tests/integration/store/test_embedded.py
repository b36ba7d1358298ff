"""The embedded server in normal life: sharing, leaving, reopening, and clear errors."""

from __future__ import annotations

import asyncio
import importlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from flowfabric.backends.valkey.embedded import keeper
from flowfabric.backends.valkey.embedded.server import EmbeddedServer
from flowfabric.backends.valkey.wire.open_client import open_client
from flowfabric.config import Settings
from flowfabric.errors import BackendUnavailable, InvalidInput, MissingPackage
from tests.servers import eventually_async, is_alive, member_process


def keeper_pid(directory: Path) -> int:
    return int((directory / keeper.KEEPER_LOCK).read_text())


def server_pid(server: EmbeddedServer) -> int:
    pid = server.pid
    assert pid is not None
    return pid


async def test_a_throw_away_server_leaves_nothing_behind() -> None:
    server = await EmbeddedServer.join()
    pid, guard = server_pid(server), keeper_pid(server.directory)
    assert server.socket_path.exists()
    assert is_alive(pid)
    await server.leave()
    assert not is_alive(pid)
    assert not server.directory.exists()
    await eventually_async(lambda: not is_alive(guard), "the keeper is gone")


async def test_each_throw_away_server_is_private() -> None:
    one, two = await asyncio.gather(open_client(Settings()), open_client(Settings()))
    await one.execute("SET", "a", 1)
    assert await two.execute("GET", "a") is None
    await asyncio.gather(one.close(), two.close())


async def test_processes_share_one_server_until_the_last_leaves(tmp_path: Path) -> None:
    mine = await EmbeddedServer.join(tmp_path)
    pid = server_pid(mine)
    with member_process(tmp_path) as other:
        assert other.server_pid == pid
        await mine.leave()
        assert is_alive(pid)
        await asyncio.to_thread(other.leave)
    assert not is_alive(pid)
    assert "appendonlydir" in os.listdir(tmp_path)


async def test_members_that_join_at_once_get_one_server(tmp_path: Path) -> None:
    members = await asyncio.gather(*(EmbeddedServer.join(tmp_path) for _ in range(6)))
    pids = {server_pid(member) for member in members}
    assert len(pids) == 1
    await asyncio.gather(*(member.leave() for member in members))
    assert not is_alive(pids.pop())


async def test_data_survives_a_full_stop(tmp_path: Path) -> None:
    settings = Settings(url=f"embedded://{tmp_path}")
    client = await open_client(settings)
    await client.execute("SET", "a", b"\x00kept")
    await client.execute("FUNCTION", "LOAD", "#!lua name=kept\nredis.register_function('kept', function() end)")
    await client.close()
    again = await open_client(settings)
    assert await again.execute("GET", "a") == b"\x00kept"
    assert await again.execute("FCALL", "kept", 0) is None
    await again.close()


async def test_whoever_arrives_during_the_shutdown_gets_a_fresh_server(tmp_path: Path) -> None:
    member = await EmbeddedServer.join(tmp_path)
    for _ in range(8):
        _, member = await asyncio.gather(member.leave(), EmbeddedServer.join(tmp_path))
        assert keeper.is_listening(str(member.socket_path))
    pid = server_pid(member)
    await member.leave()
    assert not is_alive(pid)


async def test_only_the_owner_can_look_inside(tmp_path: Path) -> None:
    server = await EmbeddedServer.join(tmp_path / "deep" / "new")
    assert server.directory.stat().st_mode & 0o777 == 0o700
    loose = [path for path in server.directory.rglob("*") if path.lstat().st_mode & 0o077]
    assert loose == []
    await server.leave()


async def test_odd_names_and_relative_paths_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    client = await open_client(Settings(url='embedded://o\'d "d" %C3%A4'))
    assert await client.execute("SET", "a", 1) == b"OK"
    await client.close()
    assert (tmp_path / 'o\'d "d" ä' / "appendonlydir").is_dir()


async def test_a_path_too_long_for_a_socket_works(tmp_path: Path) -> None:
    directory = tmp_path / ("long" * 30)
    server = await EmbeddedServer.join(directory)
    assert len(os.fsencode(server.socket_path)) <= 100
    assert server.socket_path.parent.stat().st_mode & 0o777 == 0o700
    with member_process(directory, TMPDIR="/var/tmp") as other:  # which would choose another place
        assert other.server_pid == server_pid(server)
        await asyncio.to_thread(other.leave)
    await server.leave()
    assert not server.socket_path.exists()


async def test_a_directory_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(InvalidInput, match="belongs to another user"):
        await EmbeddedServer.join(tmp_path)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o500])
async def test_a_directory_with_the_wrong_permissions_is_refused(tmp_path: Path, mode: int) -> None:
    os.chmod(tmp_path, mode)
    with pytest.raises(InvalidInput, match="chmod 700"):
        await EmbeddedServer.join(tmp_path)


async def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="cannot be used"):
        await EmbeddedServer.join(tmp_path / "file")


async def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingPackage, match=r"pip install 'flowfabric\[embedded\]'"):
        await EmbeddedServer.join()


async def test_a_failed_start_shows_the_log_of_the_server(tmp_path: Path) -> None:
    (tmp_path / "appendonlydir").mkdir()
    (tmp_path / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense\n")
    with pytest.raises(BackendUnavailable, match=r"(?s)did not start.*AOF manifest"):
        await EmbeddedServer.join(tmp_path)
    await eventually_async(lambda: not is_alive(keeper_pid(tmp_path)), "the keeper has given up")


async def test_a_failed_start_removes_the_throw_away_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:  # a shorter path than tmp_path: a socket's name is
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setattr("flowfabric.backends.valkey.embedded.server._binary", lambda: "/bin/false")
        with pytest.raises(BackendUnavailable, match="did not start"):
            await EmbeddedServer.join()
        assert os.listdir(folder) == []


async def test_a_cancelled_join_leaves_nothing_behind(tmp_path: Path) -> None:
    joining = asyncio.create_task(EmbeddedServer.join(tmp_path))
    await eventually_async((tmp_path / keeper.MEMBERS_LOCK).exists, "the join has begun")
    joining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await joining
    assert not keeper.is_listening(str(tmp_path / "server.sock"))
    server = await EmbeddedServer.join(tmp_path)
    await server.leave()


async def test_a_directory_that_was_removed_is_reported_and_left(tmp_path: Path) -> None:
    server = await EmbeddedServer.join(tmp_path / "gone")
    pid = server_pid(server)
    await asyncio.to_thread(shutil.rmtree, server.directory)
    with pytest.raises(BackendUnavailable, match="No such file"):
        await server.ensure_running()
    await server.leave()
    await eventually_async(lambda: not is_alive(pid), "the keeper stops the server")


async def test_leaving_twice_does_no_harm(tmp_path: Path) -> None:
    server = await EmbeddedServer.join(tmp_path)
    await server.leave()
    await server.leave()
