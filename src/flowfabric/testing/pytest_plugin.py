"""Fixtures for pytest: `fabric_kit` and `manual_clock`, on an embedded store shared by the test run."""

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
except ImportError:  # another plugin runs async tests and their fixtures
    fixture: Any = pytest.fixture  # type: ignore[no-redef]

T = TypeVar("T")


@pytest.fixture(scope="session")
def fabric_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """The store of a test run. It is emptied before each test that uses `fabric_kit`."""
    directory = tmp_path_factory.mktemp("flowfabric")
    server = _run(EmbeddedServer.join(directory))
    yield replace(SMALL, url=f"embedded://{directory}")
    _run(server.leave())


@fixture
async def fabric_kit(fabric_store: Settings) -> AsyncIterator[FabricKit]:
    """A fabric for one test: an empty store, a manual clock, no workers."""
    async with await FabricKit.open(fabric_store, empty=True) as kit:
        yield kit


@pytest.fixture
def manual_clock(fabric_kit: FabricKit) -> ManualClock:
    """The clock of `fabric_kit`."""
    return fabric_kit.clock


def _run(call: Coroutine[Any, Any, T]) -> T:
    """Run in a thread, to leave the event loops of the tests alone."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, call).result()
