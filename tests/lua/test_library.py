"""The handshake with the server, the reload after a loss, and faults that name their source."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest

from flowfabric.backends.valkey.library.bundle import LIBRARY_VERSION, Bundle, build, bundle
from flowfabric.backends.valkey.library.calls import FunctionCaller
from flowfabric.backends.valkey.library.loader import Library
from flowfabric.backends.valkey.wire.client import Client
from flowfabric.backends.valkey.wire.open_client import open_client
from flowfabric.config import Settings
from flowfabric.core.partition import PartitionConfig
from flowfabric.errors import ScriptFault
from tests.servers import start_standalone, start_three_node_cluster

OLDER, NEWER = LIBRARY_VERSION - 1, LIBRARY_VERSION + 1


@pytest.fixture(scope="module")
def standalone_url() -> Iterator[str]:
    with start_standalone() as server:
        yield server.url


@pytest.fixture(scope="module")
def three_nodes_url() -> Iterator[str]:
    with start_three_node_cluster() as cluster:
        yield cluster.url


@pytest.fixture(params=["standalone", "three_nodes"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """A server without any library."""
    opened = await open_client(Settings(url=request.getfixturevalue(f"{request.param}_url")))
    await opened.execute_on_primaries("FUNCTION", "FLUSH")
    yield opened
    await opened.close()


async def versions(client: Client) -> set[int | None]:
    library = Library(client, bundle())
    return {await library.version_on(node) for node in await client.primaries()}


async def load(client: Client, version: int) -> None:
    await client.execute_on_primaries("FUNCTION", "LOAD", "REPLACE", bundle(version=version).text)


async def test_an_absent_library_is_loaded_on_every_primary(client: Client) -> None:
    assert await versions(client) == {None}
    await Library(client, bundle()).ensure()
    assert await versions(client) == {LIBRARY_VERSION}


async def test_the_first_call_slows_the_collector_down(client: Client) -> None:
    """All libraries of a server share it, so another one can tell."""
    look = "#!lua name=look\nredis.register_function('look', function() return collectgarbage('setstepmul', 10) end)"
    await Library(client, bundle()).ensure()
    await client.execute_on_primaries("FUNCTION", "LOAD", look)
    await versions(client)
    assert set(await client.execute_on_primaries("FCALL", "look", 0)) == {10}


async def test_an_older_library_is_replaced(client: Client) -> None:
    await load(client, OLDER)
    await Library(client, bundle()).ensure()
    assert await versions(client) == {LIBRARY_VERSION}


async def test_a_newer_library_is_used_and_never_replaced(client: Client) -> None:
    await load(client, NEWER)
    await Library(client, bundle()).ensure()
    assert await versions(client) == {NEWER}


async def test_the_same_library_is_left_alone(client: Client) -> None:
    await load(client, LIBRARY_VERSION)
    calls_before = await loads(client)
    await Library(client, bundle()).ensure()
    assert await loads(client) == calls_before


async def test_forcing_loads_it_again(client: Client) -> None:
    await load(client, LIBRARY_VERSION)
    calls_before = await loads(client)
    await Library(client, bundle(), force=True).ensure()
    assert await loads(client) > calls_before


async def test_a_library_without_a_version_is_replaced(client: Client) -> None:
    broken = "#!lua name=flowfabric\nredis.register_function('ff_other', function() return 1 end)"
    await client.execute_on_primaries("FUNCTION", "LOAD", broken)
    await Library(client, bundle()).ensure()
    assert await versions(client) == {LIBRARY_VERSION}


async def test_many_clients_at_once_agree_on_the_newest(client: Client) -> None:
    builds = [bundle(version=version) for version in (OLDER, LIBRARY_VERSION, NEWER)] * 4
    await asyncio.gather(*(Library(client, one).ensure() for one in builds))
    await Library(client, bundle(version=NEWER)).ensure()
    await asyncio.gather(*(Library(client, one).ensure() for one in builds))
    assert await versions(client) == {NEWER}


async def test_a_server_that_lost_the_library_gets_it_again(client: Client) -> None:
    library = Library(client, bundle())
    await library.ensure()
    await client.execute_on_primaries("FUNCTION", "FLUSH")
    key = "ff:lane:{fp:1}:default:config"
    fields = await FunctionCaller(library, PartitionConfig()).call(
        "set_lane_state", {"lane_config": key}, {"state": "active"}
    )
    assert fields.text(0) == "active"
    assert await versions(client) == {LIBRARY_VERSION}


def faulty() -> Bundle:
    source = "--- Fail.\n-- @keys core\n-- @args\nlocal x = nil\n\nreturn function() return x.y end\n"
    lib = {
        "args.lua": "return {check_core = function() end}",
        "gc_tuning.lua": "return {slow_down = function() end}",
        "tenant.lua": "return {keep = function() end}",
    }
    return build(lib, {"broken.lua": source, "version.lua": "--- V.\n-- @keys\nreturn function(_, _, v) return v end"})


async def test_a_script_error_names_its_file_and_line(client: Client) -> None:
    library = Library(client, faulty(), force=True)
    await library.ensure()
    with pytest.raises(ScriptFault, match=r"fn/broken\.lua:6") as caught:
        await FunctionCaller(library, PartitionConfig()).call("broken", {"core": "ff:exec:{fp:1}:x:core"}, {})
    assert (caught.value.details["file"], caught.value.details["line"]) == ("fn/broken.lua", 6)


def test_the_source_map_finds_every_line_of_every_file() -> None:
    whole = bundle()
    lines = whole.text.split("\n")
    for number, line in enumerate(lines, 1):
        file, at = whole.locate(number)
        if file == "bundle":
            continue
        folder, _, name = file.split("/")
        from tests.lua.sources import FUNCTIONS, MODULES

        source = (FUNCTIONS if folder == "fn" else MODULES)[name.removesuffix(".lua")]
        assert source.split("\n")[at - 1] == line


def test_the_module_prints_the_bundle() -> None:
    command = [sys.executable, "-m", "flowfabric.backends.valkey.library.loader"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert printed.stdout == bundle().text


async def loads(client: Client) -> int:
    """How often FUNCTION LOAD ran on all primaries together."""
    total = 0
    for node in await client.primaries():
        stats = await node.execute("INFO", "commandstats")
        assert isinstance(stats, bytes)
        for line in stats.decode().splitlines():
            if line.startswith("cmdstat_function|load:calls="):
                total += int(line.partition("calls=")[2].partition(",")[0])
    return total
