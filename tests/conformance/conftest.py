from __future__ import annotations

import pytest

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.testing import ManualClock
from tests.conformance.driver import Driver
from tests.conformance.over_http import is_local_only


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Over HTTP only what goes through ports is a test."""
    left_out = [each for each in items if _topology(each) == "http" and is_local_only(each.nodeid)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [each for each in items if each not in set(left_out)]


def _topology(item: pytest.Item) -> str:
    called = getattr(item, "callspec", None)
    return str(called.params.get("topology", "")) if called is not None else ""


@pytest.fixture
def driver(backend: ValkeyBackend, clock: ManualClock) -> Driver:
    return Driver(backend, clock)
