"""Tests of one store: its keys, its wire, its function library; with the drivers of the conformance suite."""

from __future__ import annotations

from functools import partial

import pytest

from flowfabric.backends.valkey.library import keys
from tests.conformance.driver import home
from tests.soaking import SOAK
from tests.valkey.driver import Driver, Limits
from tests.valkey.probe import ValkeyProbe


@pytest.fixture(params=["embedded", "batched", "cluster", "three_nodes"] if SOAK else ["embedded", "three_nodes"])
def topology(request: pytest.FixtureRequest) -> str:
    """One server and several nodes; what differs less from them is for long runs."""
    name: str = request.param
    return name


@pytest.fixture
def driver(probe: ValkeyProbe, clock: object) -> Driver:
    return Driver(probe)


@pytest.fixture
def limits(driver: Driver) -> Limits:
    return Limits(driver)


@pytest.fixture
def near(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A listener connects to the node where the lane lives, the only one that can tell whether anybody listens."""
    client = driver.backend.client
    monkeypatch.setattr(client, "dedicated", partial(client.dedicated, key=keys.events(home(driver).tag)))
    return driver
