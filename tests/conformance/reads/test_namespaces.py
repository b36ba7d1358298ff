"""A backend that is limited to namespaces: executions of other namespaces do not exist for it, and cannot be made."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import Namespace
from flowfabric.errors import ExecutionNotFound, InvalidInput
from tests.conformance.driver import Driver

pytestmark = pytest.mark.needs("chosen_namespaces")

OURS, THEIRS = Namespace("ours"), Namespace("theirs")


@pytest.fixture
def tenant(driver: Driver) -> Driver:
    return Driver(driver.probe, driver.backend.within([OURS]))


async def test_a_tenant_works_with_its_own_executions(tenant: Driver) -> None:
    x = await tenant.create(namespace=OURS)
    assert (await tenant.info(x)).namespace == OURS
    await tenant.cancel(x)
    assert (await tenant.info(x)).public_state == "cancelled"


async def test_executions_of_others_do_not_exist_for_a_tenant(driver: Driver, tenant: Driver) -> None:
    x = await driver.create(namespace=THEIRS)
    before = await driver.probe.dump()
    assert await tenant.backend.get_execution(x.execution_id) is None
    with pytest.raises(ExecutionNotFound):
        await tenant.cancel(x)
    assert await driver.probe.dump() == before


async def test_a_tenant_submits_nothing_for_others(driver: Driver, tenant: Driver) -> None:
    before = await driver.probe.dump()
    with pytest.raises(InvalidInput, match="namespace"):
        await tenant.create(namespace=THEIRS)
    assert await driver.probe.dump() == before


async def test_a_tenant_is_refused_what_concerns_the_whole_store(driver: Driver, tenant: Driver) -> None:
    before = await driver.probe.dump()
    with pytest.raises(InvalidInput):
        await tenant.backend.list_workers(c.ListWorkersArgs())
    assert await driver.probe.dump() == before
