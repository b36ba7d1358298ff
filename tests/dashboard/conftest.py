"""One browser and one store for all tests of the dashboard, on one loop; each has a server and a tab of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from flowfabric import Fabric
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.embedded.server import EmbeddedServer
from flowfabric.core.partition import PartitionConfig
from flowfabric.server.http.listener import listening
from flowfabric.server.settings import ServerSettings
from tests.browsers import opened_browser
from tests.dashboard.pages import Dashboard
from tests.suites import not_run

_forever = pytest_asyncio.fixture(scope="session", loop_scope="session")
_for_a_test = pytest_asyncio.fixture(loop_scope="session")


@_forever
async def browser() -> AsyncIterator[Browser]:
    async with opened_browser() as opened:
        if opened is None:
            not_run("no browser")
        yield opened


@_forever
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    directory = tmp_path_factory.mktemp("dashboard")
    server = await EmbeddedServer.join(directory)
    yield f"embedded://{directory}"
    await server.leave()


@_for_a_test
async def fabric(place: str) -> AsyncIterator[Fabric]:
    """An empty store. It is emptied before anybody follows its logs, which begin anew."""
    async with Fabric.connect(place) as opened:
        backend = opened.backend
        assert isinstance(backend, ValkeyBackend)
        await backend.client.execute_on_primaries("FLUSHALL")
        backend.partitions = PartitionConfig()
        yield opened


@_for_a_test
async def address(fabric: Fabric) -> AsyncIterator[str]:
    async with listening(fabric.backend, ServerSettings(port=0, stop_grace_ms=0)) as url:
        yield url


@_for_a_test
async def dashboard(browser: Browser, address: str) -> AsyncIterator[Dashboard]:
    """A tab; the test fails when the page complained of anything."""
    async with Dashboard.opened(browser, address) as page:
        yield page
        assert page.complaints == []
