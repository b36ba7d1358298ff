"""Options of a task hold when it is submitted by name, because workers register them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flowfabric import Context, Fabric, RetryPolicy, Worker, task
from flowfabric.client.tasks import registered
from flowfabric.client.tasks.options import TaskOptions
from flowfabric.client.tasks.registered import entry_of, options_of
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.core.policy import FixedBackoff
from flowfabric.testing import FabricKit
from tests.server.serving import serving

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

RETRY = RetryPolicy(max_retries=2, backoff=FixedBackoff(delay_ms=5_000))


def reports() -> Worker:
    worker = Worker(lanes=["reports"])

    @worker.task(retry=RETRY, timeout=60, priority=7, tags={"team.name": "tides"})
    async def research(topic: str) -> str:
        return topic

    return worker


async def registered_by(fabric: Fabric, worker: Worker) -> None:
    """The registration outlives the worker."""
    async with worker.working(fabric.backend):
        pass


async def test_a_name_is_submitted_with_the_options_of_its_task(fabric_kit: FabricKit) -> None:
    await registered_by(fabric_kit, reports())
    handle = await fabric_kit.submit("research", "tides")
    info = await fabric_kit.backend.get_execution(handle.id)
    assert info is not None
    assert (info.lane_id, info.priority) == ("reports", 7)
    assert (await handle.describe()).tags == {"team.name": "tides"}


async def test_options_of_the_caller_win(fabric_kit: FabricKit) -> None:
    await registered_by(fabric_kit, reports())
    handle = await fabric_kit.submit("research", "tides", priority=1, lane="other")
    info = await fabric_kit.backend.get_execution(handle.id)
    assert info is not None
    assert (info.lane_id, info.priority) == ("other", 1)
    assert (await handle.describe()).tags == {"team.name": "tides"}


async def test_many_calls_by_name_have_the_options_too(fabric_kit: FabricKit) -> None:
    await registered_by(fabric_kit, reports())
    first, _ = await fabric_kit.submit_many("research", [("a",), ("b",)])
    assert not isinstance(first, Exception)
    info = await fabric_kit.backend.get_execution(first.id)
    assert info is not None
    assert info.lane_id == "reports"


async def test_over_http_they_hold_as_well(fabric_kit: FabricKit) -> None:
    await registered_by(fabric_kit, reports())
    async with serving(fabric_kit.backend) as server:
        made = (await server.http.post("/v1/executions", json={"task": "research", "args": ["tides"]})).json()
        info = await fabric_kit.backend.get_execution(id_of(made))
        assert info is not None
        assert (info.lane_id, info.priority) == ("reports", 7)
        body = {"task": "research", "args": ["tides"], "priority": 2}
        made = (await server.http.post("/v1/executions", json=body)).json()
        info = await fabric_kit.backend.get_execution(id_of(made))
        assert info is not None
        assert (info.lane_id, info.priority) == ("reports", 2)
        found = (await server.http.get("/v1/tasks")).json()["tasks"]
        assert [(each["name"], each["options"]["lane"]) for each in found] == [("research", "reports")]
        async with Fabric.connect(server.url) as remote:
            handle = await remote.submit("research", "tides")
        info = await fabric_kit.backend.get_execution(handle.id)
        assert info is not None
        assert info.lane_id == "reports"


def id_of(made: dict[str, Any]) -> ExecutionId:
    return ExecutionId(made["execution_id"])


async def test_the_retry_policy_holds(fabric_kit: FabricKit) -> None:
    worker, tried = Worker(), []

    @worker.task(retry=RETRY)
    async def flaky() -> str:
        tried.append(1)
        if len(tried) < 2:
            raise ConnectionError("not yet")
        return "at last"

    await registered_by(fabric_kit, worker)
    handle = await fabric_kit.submit("flaky")
    await fabric_kit.run_until_idle(worker)
    await fabric_kit.advance(5)
    await fabric_kit.run_until_idle(worker)
    assert await handle == "at last"


async def test_the_last_registration_wins(fabric_kit: FabricKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered, "_FRESH_S", 0.0)
    for priority in (1, 2):
        worker = Worker(version=f"v{priority}")

        @worker.task(priority=priority)
        async def work() -> None: ...

        await registered_by(fabric_kit, worker)
        handle = await fabric_kit.submit("work")
        info = await fabric_kit.backend.get_execution(handle.id)
        assert info is not None
        assert info.priority == priority
    (found,) = (await fabric_kit.backend.list_tasks(c.ListTasksArgs())).tasks
    assert (found.name, found.version) == ("work", "v2")


async def test_a_name_that_no_worker_registered_has_the_defaults(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit("nosuchtask", 1)
    info = await fabric_kit.backend.get_execution(handle.id)
    assert info is not None
    assert (info.lane_id, info.priority) == ("default", 0)


async def test_namespaces_have_tasks_of_their_own(fabric_kit: FabricKit) -> None:
    await registered_by(fabric_kit, reports())
    other = Fabric(fabric_kit.backend, namespace="other")
    handle = await other.submit("research", "tides")
    info = await fabric_kit.backend.get_execution(handle.id)
    assert info is not None
    assert info.lane_id == "default"


async def test_tasks_are_listed_page_by_page(fabric_kit: FabricKit) -> None:
    worker = Worker()
    for name in ("c", "a", "b"):
        worker.task(name=name)(_empty)
    await registered_by(fabric_kit, worker)
    page = await fabric_kit.backend.list_tasks(c.ListTasksArgs(limit=2))
    rest = await fabric_kit.backend.list_tasks(c.ListTasksArgs(limit=2, cursor=page.next_cursor))
    assert [each.name for each in page.tasks + rest.tasks] == ["a", "b", "c"]
    assert rest.next_cursor is None


async def _empty() -> None: ...


def test_every_option_survives_registration_except_a_point_in_time() -> None:
    @task(
        lane="l",
        priority=3,
        retry=RETRY,
        timeout=timedelta(seconds=2),
        deadline=60,
        delay=1.5,
        capabilities={"gpu", "big"},
        tags={"team.a": "b"},
        idempotency_window=10,
        on_duplicate="reject",
        concurrency_key="k",
        keep_for=5,
        changed_steps="fail",
    )
    async def everything() -> None: ...

    read = TaskOptions(**options_of(entry_of(everything).options))
    assert (read.policy, read.lane, read.priority) == (everything.options.policy, "l", 3)
    assert (read.tags, read.concurrency_key, read.on_duplicate) == ({"team.a": "b"}, "k", "reject")
    assert (read.delay, read.changed_steps) == (1.5, "fail")
    at = everything.with_options(deadline=datetime(2030, 1, 1, tzinfo=UTC))
    assert "deadline" not in entry_of(at).options
    large = everything.with_options(tags={f"team.k{n}": "v" * 500 for n in range(20)})
    assert entry_of(large).options == {"lane": "l"}


async def test_nodes_of_flows_and_children_by_name_have_the_options_too(fabric_kit: FabricKit) -> None:
    worker = Worker()

    @worker.task(priority=5)
    async def leaf() -> int:
        return 1

    @worker.task
    async def parent(ctx: Context) -> str:
        return str((await ctx.submit("leaf", lane="default")).id)

    await registered_by(fabric_kit, worker)
    async with fabric_kit.flow("both") as flow:
        node, other = flow.add("leaf"), flow.add("leaf", priority=1)
    made = await fabric_kit.submit(parent)
    await fabric_kit.run_until_idle(worker)
    found = [await fabric_kit.backend.get_execution(each) for each in (node.id, other.id, ExecutionId(await made))]
    assert [each.priority for each in found if each is not None] == [5, 1, 5]


async def test_workers_over_http_get_only_what_they_have_tasks_for(fabric_kit: FabricKit) -> None:
    worker = Worker()

    @worker.task
    async def known() -> str:
        return "here"

    unknown = await fabric_kit.submit("nosuchtask")
    async with serving(fabric_kit.backend) as server, Fabric.connect(server.url) as remote:
        async with worker.working(remote.backend):
            assert await (await fabric_kit.submit(known)) == "here"
        events = (await unknown.history()).events
        assert [each.event for each in events] == ["created"]
        body = {"worker_id": "w", "worker_instance_id": "w-1", "wait_ms": 0, "kinds": ["other"]}
        assert (await server.http.post("/v1/work/claim", json=body)).json() == []
        (work,) = (await server.http.post("/v1/work/claim", json=body | {"kinds": ["nosuchtask"]})).json()
        assert work["execution_kind"] == "nosuchtask"
