"""Which test runs on which store. Tests say what they need by markers, stores say what they lack in one place."""

from __future__ import annotations

import pytest

from tests.conformance.driver import Driver
from tests.conformance.limiting import Limits
from tests.soaking import SOAK
from tests.stores.kinds import KINDS, PART, kind_of
from tests.stores.probe import CAPABILITIES, Clock, Probe


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = {each for each in items if _is_left_out(each)}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [each for each in items if each not in left_out]


def _is_left_out(item: pytest.Item) -> bool:
    called = getattr(item, "callspec", None)
    if called is None or "topology" not in called.params:
        return False
    name = called.params["topology"]
    if name in PART and not SOAK and item.get_closest_marker("every_store") is None:
        return True
    if called.params.get("seed", 0) % kind_of(name).nth_life:
        return True
    return any(need in kind_of(name).lacks for need in _needs(item))


def _needs(item: pytest.Item) -> set[str]:
    needs = {str(need) for marker in item.iter_markers("needs") for need in marker.args}
    assert needs <= CAPABILITIES.keys(), f"{item.nodeid}: tests.stores.probe.CAPABILITIES does not name {needs}"
    return needs


@pytest.fixture(params=KINDS)
def topology(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def driver(probe: Probe, clock: Clock) -> Driver:
    return Driver(probe)


@pytest.fixture
def limits(driver: Driver) -> Limits:
    return Limits(driver)
