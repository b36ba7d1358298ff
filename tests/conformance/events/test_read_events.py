"""read_events: filters, merging over partitions, cursors that survive, and logs that forget."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.ids import LaneId, Namespace
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.errors import InvalidInput
from tests.conformance.driver import Driver, Subject

pytestmark = pytest.mark.every_store

OTHER = LaneId("other")


async def whole(backend: EngineBackend, **filters: Any) -> list[c.Event]:
    """Every matching event, page by page."""
    found: list[c.Event] = []
    cursor = None
    while True:
        page = await backend.read_events(c.ReadEventsArgs(cursor=cursor, **filters))
        found += page.events
        cursor = page.cursor
        if not page.more:
            return found


async def two_lanes(driver: Driver) -> tuple[Subject, Subject]:
    """One execution in each of two partitions, their lines taking turns."""
    first = await driver.create(namespace=Namespace("red"), execution_kind="mail")
    await driver.clock.advance(1)
    second = await driver.create(lane_id=OTHER)
    for step in (driver.run(first), driver.run(second, lane_id=OTHER), driver.complete(first), driver.cancel(second)):
        await driver.clock.advance(1)
        await step
    return first, second


async def test_the_logs_of_all_partitions_are_merged_by_time(driver: Driver) -> None:
    first, second = await two_lanes(driver)
    found = await whole(driver.backend)
    assert [(each.event, each.execution_id) for each in found] == [
        ("created", first.execution_id), ("created", second.execution_id),
        ("claimed", first.execution_id), ("claimed", second.execution_id),
        ("completed", first.execution_id), ("cancelled", second.execution_id),
    ]  # fmt: skip
    assert [each.at_ms for each in found] == sorted(each.at_ms for each in found)


async def test_an_event_says_what_happened_to_which_attempt_and_when(driver: Driver) -> None:
    first, _ = await two_lanes(driver)
    created, claimed, completed = await whole(driver.backend, execution_id=first.execution_id)
    assert (created.attempt_index, created.lease_epoch, created.outcome) == (None, 0, None)
    assert (claimed.attempt_index, claimed.lease_epoch, claimed.outcome) == (0, 1, "initial")
    assert (completed.outcome, completed.at_ms) == ("success", driver.clock.now_ms - 1)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"namespace": "red"}, ["created", "claimed", "completed"]),
        ({"namespace": "blue"}, []),
        ({"lane_id": "other"}, ["created", "claimed", "cancelled"]),
        ({"execution_kind": "mail"}, ["created", "claimed", "completed"]),
        ({"execution_kind": "mail", "lane_id": "other"}, []),
        ({"events": ["completed", "cancelled"]}, ["completed", "cancelled"]),
        ({"events": ["created"], "namespace": "red"}, ["created"]),
    ],
    ids=str,
)
async def test_every_filter_given_must_match(driver: Driver, filters: dict[str, Any], expected: list[str]) -> None:
    await two_lanes(driver)
    assert [each.event for each in await whole(driver.backend, **filters)] == expected


async def test_one_partition_can_be_read_alone(driver: Driver) -> None:
    first, second = await two_lanes(driver)
    partition = Partition(PartitionFamily.EXECUTION, second.execution_id.partition_index)
    found = await whole(driver.backend, partition=partition)
    assert {each.execution_id for each in found} == {second.execution_id}
    with pytest.raises(InvalidInput, match="partition"):
        c.ReadEventsArgs(partition=partition, execution_id=first.execution_id)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
async def test_pages_of_any_size_hold_the_same_lines_in_the_same_order(driver: Driver, limit: int) -> None:
    await two_lanes(driver)
    assert await whole(driver.backend, limit=limit) == await whole(driver.backend)


async def test_a_cursor_is_good_for_another_process(driver: Driver) -> None:
    await two_lanes(driver)
    everything = await whole(driver.backend)
    page = await driver.backend.read_events(c.ReadEventsArgs(limit=4))
    other = await driver.probe.another()
    try:
        rest = await other.read_events(c.ReadEventsArgs(cursor=page.cursor))
    finally:
        await other.close()
    assert [*page.events, *rest.events] == everything


async def test_the_cursor_of_an_event_continues_its_execution(driver: Driver) -> None:
    first, _ = await two_lanes(driver)
    created, *rest = await whole(driver.backend, execution_id=first.execution_id)
    args = c.ReadEventsArgs(execution_id=first.execution_id, cursor=created.cursor)
    assert list((await driver.backend.read_events(args)).events) == rest


async def test_the_end_is_a_place_to_start_from(driver: Driver) -> None:
    await two_lanes(driver)
    end = await driver.backend.read_events(c.ReadEventsArgs(cursor="end"))
    assert (end.events, end.more) == ((), False)
    x = await driver.create()
    page = await driver.backend.read_events(c.ReadEventsArgs(cursor=end.cursor))
    assert [(each.event, each.execution_id) for each in page.events] == [("created", x.execution_id)]
    assert not page.truncated


async def test_a_quiet_log_gives_back_an_equal_cursor(driver: Driver) -> None:
    await two_lanes(driver)
    page = await driver.backend.read_events(c.ReadEventsArgs())
    again = await driver.backend.read_events(c.ReadEventsArgs(cursor=page.cursor))
    assert (again.events, again.cursor, again.more) == ((), page.cursor, False)


async def test_a_deleted_execution_is_known_by_its_id_alone(driver: Driver) -> None:
    first, _ = await two_lanes(driver)
    await driver.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    assert await whole(driver.backend, lane_id="default") == []
    assert len(await whole(driver.backend, execution_id=first.execution_id)) == 3


@pytest.mark.parametrize("cursor", ["nonsense", "a", "kqZldmVudHM", "\u20ac"])
async def test_text_that_is_no_cursor_is_refused(driver: Driver, cursor: str) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        await driver.backend.read_events(c.ReadEventsArgs(cursor=cursor))


async def test_a_cursor_of_another_list_is_refused(driver: Driver) -> None:
    await driver.create()
    await driver.create()
    listed = await driver.backend.list_executions(c.ListExecutionsArgs(limit=1))
    with pytest.raises(InvalidInput, match="cursor"):
        await driver.backend.read_events(c.ReadEventsArgs(cursor=listed.next_cursor))


async def test_a_partition_the_store_does_not_have_is_refused(driver: Driver) -> None:
    beyond = Partition(PartitionFamily.FLOW, driver.backend.partitions.num_flow_partitions)
    with pytest.raises(InvalidInput, match="partition"):
        await driver.backend.read_events(c.ReadEventsArgs(partition=beyond))


async def test_whom_an_event_is_about_is_told_where_it_is_asked_for(driver: Driver) -> None:
    first, second = await two_lanes(driver)
    page = await driver.backend.read_events(c.ReadEventsArgs(owners=True))
    told = {event.execution_id: owner for event, owner in zip(page.events, page.owners, strict=True)}
    assert told[first.execution_id].namespace == "red"
    assert told[first.execution_id].execution_kind == "mail"
    assert told[second.execution_id].lane_id == OTHER
    assert told[second.execution_id].partition.tag == second.execution_id.tag
    assert not (await driver.backend.read_events(c.ReadEventsArgs())).owners


async def test_of_what_was_deleted_the_partition_alone_is_told(driver: Driver) -> None:
    await two_lanes(driver)
    await driver.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    owners = (await driver.backend.read_events(c.ReadEventsArgs(owners=True))).owners
    assert owners
    assert all(owner == c.EventOwner(partition=owner.partition) for owner in owners)
