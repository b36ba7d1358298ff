"""list_executions: every filter, both orders, and walks that miss and repeat nothing whatever happens meanwhile."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId, Namespace
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.rules.execution.transitions import Situation
from flowfabric.core.states import PublicState
from flowfabric.errors import InvalidInput
from tests.conformance.driver import Driver, Subject
from tests.soaking import examples

pytestmark = pytest.mark.every_store

LANES = [LaneId("default"), LaneId("other"), LaneId("third")]
NAMESPACES = [Namespace("red"), Namespace("default")]
KINDS = ["mail", "call"]
TAGS: list[dict[str, str]] = [{}, {"team.a": "1"}, {"team.a": "2"}, {"team.a": "1", "team.b": ""}]


async def walk(driver: Driver, **filters: Any) -> list[c.ExecutionSummary]:
    """Every page of a list."""
    found: list[c.ExecutionSummary] = []
    cursor = None
    while True:
        page = await driver.backend.list_executions(c.ListExecutionsArgs(cursor=cursor, **filters))
        assert len(page.executions) <= filters.get("limit", 100)
        found += page.executions
        cursor = page.next_cursor
        if cursor is None:
            return found


def ids(found: list[c.ExecutionSummary]) -> list[ExecutionId]:
    return [each.execution_id for each in found]


async def populate(driver: Driver, rng: random.Random, count: int) -> None:
    """Executions of all sorts in several partitions, some created in the same millisecond."""
    for _ in range(count):
        x = await driver.create(
            lane_id=rng.choice(LANES), namespace=rng.choice(NAMESPACES), execution_kind=rng.choice(KINDS),
            priority=rng.choice([0, 7]), tags=rng.choice(TAGS),
        )  # fmt: skip
        if rng.random() < 0.4:
            await driver.cancel(x)
        await driver.clock.advance(rng.choice([0, 0, 3]))


def some_filters(rng: random.Random, now: int) -> dict[str, Any]:
    every = {
        "lane_id": rng.choice(LANES), "namespace": rng.choice(NAMESPACES), "execution_kind": rng.choice(KINDS),
        "public_state": rng.choice([PublicState.WAITING, PublicState.CANCELLED, PublicState.ACTIVE]),
        "tags": rng.choice(TAGS), "created_since_ms": now - rng.randrange(60),
        "created_until_ms": now - rng.randrange(40),
    }  # fmt: skip
    return {name: every[name] for name in rng.sample(sorted(every), rng.randrange(4))}


def matches(x: c.ExecutionSummary, tags: dict[str, str], filters: dict[str, Any]) -> bool:
    named = ("lane_id", "namespace", "execution_kind", "public_state")
    return (
        all(getattr(x, name) == filters.get(name, getattr(x, name)) for name in named)
        and filters.get("tags", {}).items() <= tags.items()
        and filters.get("created_since_ms", 0) <= x.created_at < filters.get("created_until_ms", 10**13)
    )


@pytest.mark.parametrize("seed", range(examples(1, soak=40)))
async def test_any_filters_give_what_a_look_at_every_execution_gives(driver: Driver, seed: int) -> None:
    rng = random.Random(seed)
    await populate(driver, rng, 40)
    everything = await walk(driver)
    tags = {}
    for each in everything:
        snapshot = await driver.backend.describe_execution(each.execution_id)
        assert snapshot is not None
        tags[each.execution_id] = snapshot.tags
    assert len(everything) == 40
    for _ in range(20):
        filters = some_filters(rng, driver.clock.now_ms)
        order = rng.choice(list(c.ListOrder))
        expected = [each for each in everything if matches(each, tags[each.execution_id], filters)]
        expected.sort(key=lambda each: (each.created_at, each.execution_id), reverse=order is c.ListOrder.NEWEST)
        assert await walk(driver, order=order, limit=rng.choice([3, 7, 100]), **filters) == expected, filters


async def test_a_summary_says_what_a_list_shows(driver: Driver) -> None:
    x = await driver.create(priority=5)
    (found,) = await walk(driver)
    assert found == c.ExecutionSummary(
        execution_id=x.execution_id,
        namespace=Namespace("tests"),
        lane_id=LaneId("default"),
        execution_kind="kind",
        public_state=PublicState.WAITING,
        priority=5,
        created_at=driver.clock.now_ms,
    )


@pytest.mark.parametrize("lane", [{}, {"lane_id": LaneId("default")}], ids=["all lanes", "one lane"])
async def test_an_execution_is_listed_under_its_state_and_no_other(driver: Driver, lane: dict[str, Any]) -> None:
    expected: dict[PublicState, set[ExecutionId]] = {state: set() for state in PublicState}
    for situation in Situation:
        x = await driver.reach(situation)
        for each in [x] if x.upstream is None or lane else [x, x.upstream]:
            expected[(await driver.info(each)).public_state].add(each.execution_id)
    for state in PublicState:
        found = ids(await walk(driver, public_state=state, **lane))
        assert (set(found), len(found)) == (expected[state], len(expected[state]))


async def test_work_that_needs_capabilities_is_listed_as_waiting(driver: Driver) -> None:
    policy = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))
    x = await driver.create(policy=policy)
    assert ids(await walk(driver, public_state=PublicState.WAITING)) == [x.execution_id]


async def test_a_tag_that_changes_moves_the_execution(driver: Driver) -> None:
    x = await driver.create(tags={"team.a": "1"})
    await driver.set_tags(x, team__a="2")
    assert ids(await walk(driver, tags={"team.a": "1"})) == []
    assert ids(await walk(driver, tags={"team.a": "2"})) == [x.execution_id]


async def test_what_exists_all_the_time_is_met_once_whatever_else_happens(driver: Driver) -> None:
    """Between the pages executions are created, end and are deleted, among them those the cursor names."""
    lasting: list[Subject] = []
    passing: list[Subject] = []
    for at in range(24):
        x = await driver.create(lane_id=LANES[at % 3])
        (passing if at % 4 == 0 else lasting).append(x)
    met: list[ExecutionId] = []
    cursor = None
    while True:
        page = await driver.backend.list_executions(c.ListExecutionsArgs(limit=3, cursor=cursor))
        met += ids(list(page.executions))
        cursor = page.next_cursor
        if cursor is None:
            break
        await driver.clock.advance(1)
        await driver.create()
        for x in [each for each in passing if each.execution_id in met]:
            await driver.cancel(x)
            passing.remove(x)
        await driver.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    assert len(met) == len(set(met))
    assert {x.execution_id for x in lasting} <= set(met)


async def test_the_place_of_a_deleted_execution_is_still_a_place(driver: Driver) -> None:
    for _ in range(9):
        await driver.create()
    everything = ids(await walk(driver))
    page = await driver.backend.list_executions(c.ListExecutionsArgs(limit=4))
    await driver.cancel(Subject(everything[3]))
    await driver.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    rest = await driver.backend.list_executions(c.ListExecutionsArgs(cursor=page.next_cursor))
    assert ids([*page.executions, *rest.executions]) == everything


async def submit(driver: Driver, count: int, **args: Any) -> list[ExecutionId]:
    lane = args.setdefault("lane_id", LaneId("default"))
    batch = [
        c.CreateExecutionArgs(
            execution_id=driver.mint(lane), namespace=Namespace("tests"), execution_kind="kind", **args
        )
        for _ in range(count)
    ]
    outcomes = await driver.backend.submit_executions(batch)
    assert all(isinstance(outcome, c.ExecutionCreated) for outcome in outcomes)
    return [each.execution_id for each in batch]


@pytest.mark.parametrize("order", c.ListOrder)
async def test_a_queue_that_is_too_long_to_sort_is_walked_by_age(driver: Driver, order: c.ListOrder) -> None:
    """More executions of one millisecond than one call looks at, mixed with another lane's in the same partition."""
    expected = await submit(driver, 700)
    other = await driver.create(execution_id=driver.mint(), lane_id=LaneId("other"))
    found = ids(await walk(driver, lane_id=LaneId("default"), public_state=PublicState.WAITING, order=order, limit=90))
    assert found == sorted(expected, reverse=order is c.ListOrder.NEWEST)
    assert ids(await walk(driver, lane_id=LaneId("other"))) == [other.execution_id]


async def test_an_empty_store_lists_nothing(driver: Driver) -> None:
    assert await driver.backend.list_executions(c.ListExecutionsArgs()) == c.ListExecutionsPage()


async def test_a_cursor_belongs_to_its_order(driver: Driver) -> None:
    for _ in range(2):
        await driver.create()
    page = await driver.backend.list_executions(c.ListExecutionsArgs(limit=1))
    with pytest.raises(InvalidInput, match="order"):
        await driver.backend.list_executions(c.ListExecutionsArgs(cursor=page.next_cursor, order=c.ListOrder.OLDEST))


async def test_pages_are_in_order_over_all_partitions(driver: Driver) -> None:
    for at in range(30):
        await driver.create(lane_id=LaneId(f"lane-{at % 10}"))
        await driver.clock.advance(at % 3)
    found = await walk(driver, limit=4)
    places = [(each.created_at, each.execution_id) for each in found]
    assert all(earlier > later for earlier, later in pairwise(places))
    assert len(found) == 30
