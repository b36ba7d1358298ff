from __future__ import annotations

from functools import partial

import pytest

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.library import keys
from flowfabric.testing import ManualClock
from tests.conformance.driver import Driver
from tests.conformance.limiting import Limits
from tests.conformance.over_http import is_local_only
from tests.conformance.parking import home
from tests.soaking import SOAK

_PART = 5
_SEEDED = ("test_races.py", "test_flow_model.py", "test_limits_model.py")  # of which there are thousands in a soak


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Over HTTP only what goes through ports is a test.

    One server and a cluster of three nodes run everything; what differs less from them runs a part. In a soak that is
    so for seeds alone.
    """
    remote = [each for each in items if _topology(each) == "http"]
    left_out = [each for each in remote if is_local_only(each.nodeid)]
    beside = [each for each in items if _topology(each) in ("http", "cluster", "batched")]
    if SOAK:
        beside = [each for each in beside if any(name in each.nodeid for name in _SEEDED)]
    left_out += [each for number, each in enumerate(beside) if number % _PART]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [each for each in items if each not in gone]


def _topology(item: pytest.Item) -> str:
    called = getattr(item, "callspec", None)
    return str(called.params.get("topology", "")) if called is not None else ""


@pytest.fixture
def driver(backend: ValkeyBackend, clock: ManualClock) -> Driver:
    return Driver(backend, clock)


@pytest.fixture
def limits(driver: Driver) -> Limits:
    return Limits(driver)


@pytest.fixture
def near(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """Who listens does so on the node where the lane lives, the only one that can tell whether anybody does."""
    client = driver.backend.client
    monkeypatch.setattr(client, "dedicated", partial(client.dedicated, key=keys.events(home(driver).tag)))
    return driver
