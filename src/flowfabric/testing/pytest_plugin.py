"""Fixtures for pytest: `fabric_kit` and `manual_clock`, on an embedded store that the whole run shares."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from flowfabric.backends.valkey.embedded.server import EmbeddedServer
from flowfabric.config import Settings
from flowfabric.testing.clock import ManualClock
from flowfabric.testing.kit import SMALL, FabricKit

try:
    from pytest_asyncio import fixture
except ImportError:  # another plugin runs the async tests, and knows their fixtures by itself
    fixture: Any = pytest.fixture  # type: ignore[no-redef]

T = TypeVar("T")


@pytest.fixture(scope="session")
def fabric_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """The store of a test run. Everything in it is deleted before each test that has a `fabric_kit`."""
    directory = tmp_path_factory.mktemp("flowfabric")
    server = _run(EmbeddedServer.join(directory))
    yield replace(SMALL, url=f"embedded://{directory}")
    _run(server.leave())


@fixture
async def fabric_kit(fabric_store: Settings) -> AsyncIterator[FabricKit]:
    """A fabric of the test's own: an empty store, a clock that stands still, no worker."""
    async with await FabricKit.open(fabric_store, empty=True) as kit:
        yield kit


@pytest.fixture
def manual_clock(fabric_kit: FabricKit) -> ManualClock:
    """The clock of `fabric_kit`."""
    return fabric_kit.clock


def _run(call: Coroutine[Any, Any, T]) -> T:
    """In a thread, so that no event loop of the tests is touched."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, call).result()
