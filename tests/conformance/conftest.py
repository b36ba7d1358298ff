from __future__ import annotations

import pytest

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.testing import ManualClock
from tests.conformance.driver import Driver


@pytest.fixture
def driver(backend: ValkeyBackend, clock: ManualClock) -> Driver:
    return Driver(backend, clock)
