from __future__ import annotations

import pytest
from tests.conformance.driver import Driver

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.testing import ManualClock


@pytest.fixture
def driver(backend: ValkeyBackend, clock: ManualClock) -> Driver:
    return Driver(backend, clock)
