"""One browser, one store and one server for all tests of the dashboard, on one loop; each finds the store empty."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from flowfabric import Fabric
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.core.partition import PartitionConfig
from flowfabric.server import ServerSettings
from flowfabric.server.listening import listening
from tests.browsers import launch
from tests.dashboard.pages import Dashboard

_forever = pytest_asyncio.fixture(scope="session", loop_scope="session")


@_forever
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        opened = await launch(playwright)
        yield opened
        await opened.close()


@_forever
async def opened_fabric(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fabric]:
    async with Fabric.connect(f"embedded://{tmp_path_factory.mktemp('dashboard')}") as fabric:
        yield fabric


@_forever
async def address(opened_fabric: Fabric) -> AsyncIterator[str]:
    async with listening(opened_fabric.backend, ServerSettings(port=0, stop_grace_ms=0)) as url:
        yield url


@pytest_asyncio.fixture(loop_scope="session")
async def fabric(opened_fabric: Fabric) -> Fabric:
    """An empty store."""
    backend = opened_fabric.backend
    assert isinstance(backend, ValkeyBackend)
    await backend.client.execute_on_primaries("FLUSHALL")
    backend.partitions = PartitionConfig()
    return opened_fabric


@pytest_asyncio.fixture(loop_scope="session")
async def dashboard(browser: Browser, address: str, fabric: Fabric) -> AsyncIterator[Dashboard]:
    """A tab of its own; a test fails when the page complained of anything."""
    async with Dashboard.opened(browser, address) as page:
        yield page
        assert page.complaints == []
