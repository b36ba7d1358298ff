"""SyncFabric: the same methods as Fabric, from any thread, and a clean end."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from flowfabric.backends import open_backend
from flowfabric.client.fabric import Fabric
from flowfabric.client.failures import ExecutionCancelled
from flowfabric.client.handle import Handle
from flowfabric.client.limits import Budgets, Quotas
from flowfabric.client.sync.fabric import SyncFabric
from flowfabric.client.sync.handle import SyncHandle
from flowfabric.client.sync.portal import Portal
from flowfabric.client.tasks.task import named, task
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import LaneId, WorkerId, WorkerInstanceId
from flowfabric.errors import BackendUnavailable, InvalidInput

ASYNC_ONLY = {"open", "backend", "namespace"}


@task(lane="sync")
def double(number: int) -> int:
    return 2 * number


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"embedded://{tmp_path_factory.mktemp('sync')}"


@pytest.fixture(scope="module")
def fabric(url: str) -> Iterator[SyncFabric]:
    with SyncFabric.connect(url) as connected:
        yield connected


def work_off(url: str, count: int, lane: str = "sync") -> None:
    """A worker, in an event loop of its own."""

    async def work() -> None:
        backend = await open_backend(url)
        left = count
        while left:
            claimed = await backend.claim_executions(
                b.ClaimExecutionsArgs(
                    lane_id=LaneId(lane),
                    worker_id=WorkerId("hand"),
                    worker_instance_id=WorkerInstanceId("hand-1"),
                    lease_ttl_ms=30_000,
                    count=min(left, 100),
                )
            )
            for item in claimed:
                assert isinstance(item, b.ClaimedWork)
                args, kwargs = double.decode_arguments(item.input_payload)
                result = double.encode_result(double(*args, **kwargs))
                await backend.complete_execution(
                    c.CompleteExecutionArgs(
                        execution_id=item.claim.execution_id,
                        fence=item.claim.fence,
                        result_payload=result,
                        result_encoding="json",
                    )
                )
            left -= len(claimed)
        await backend.close()

    asyncio.run(work())


def test_a_script_submits_and_gets_its_result(fabric: SyncFabric, url: str) -> None:
    handle = fabric.submit(double, 21)
    assert (handle.status(), handle.submission) == ("waiting", "created")
    work_off(url, 1)
    assert handle.result(timeout=30) == 42
    assert [event.event for event in handle.events()] == ["created", "claimed", "completed"]
    assert fabric.handle(handle.id).result() == 42
    assert repr(handle) == f"SyncHandle('double', '{handle.id.short}')"


def test_many_threads_share_one_fabric(fabric: SyncFabric, url: str) -> None:
    """Each thread submits and waits for its own results while others do the same."""
    threads, each = 16, 20
    started = threading.Barrier(threads + 1)

    def one(number: int) -> list[int]:
        started.wait(30)
        handles = [fabric.submit(double, number * 1_000 + turn) for turn in range(each)]
        return [handle.result(timeout=60) for handle in handles]

    with ThreadPoolExecutor(threads) as pool:
        results = [pool.submit(one, number) for number in range(threads)]
        started.wait(30)
        work_off(url, threads * each)
        for number, result in enumerate(results):
            assert result.result(60) == [2 * (number * 1_000 + turn) for turn in range(each)]


def test_a_bulk_gives_handles_and_errors(fabric: SyncFabric) -> None:
    bulk = double.with_options(lane="sync-bulk")
    outcomes = fabric.submit_many(bulk.call(number) for number in range(3))
    assert all(isinstance(each, SyncHandle) for each in outcomes)
    assert len(fabric.submit_many(bulk, [(4,)])) == 1
    assert fabric.counts("sync-bulk")[0].total == 4
    assert len(fabric.list(lane="sync-bulk").executions) == 4
    with pytest.raises(InvalidInput, match="number: Expected `int`"):
        fabric.submit(double, "x")  # type: ignore[call-overload]


def test_arguments_may_be_called_like_ours(fabric: SyncFabric) -> None:
    handle = fabric.submit(named("awkward", lane="sync-names"), function=1, self=2, task=3)
    assert handle.status() == "waiting"


def test_failures_reach_the_caller(fabric: SyncFabric) -> None:
    handle = fabric.submit(double.with_options(lane="sync-cancel"), 1)
    with pytest.raises(TimeoutError, match="is still waiting"):
        handle.result(timeout=0.01)
    handle.cancel("enough")
    with pytest.raises(ExecutionCancelled):
        handle.result()


def test_leaving_the_events_early_lets_go_of_them(fabric: SyncFabric) -> None:
    handle = fabric.submit(double.with_options(lane="sync-events"), 1)
    events = handle.events()
    assert next(events).event == "created"
    events.close()  # type: ignore[attr-defined]
    assert list(events) == []
    assert handle.status() == "waiting"


@pytest.mark.parametrize(("kind", "sync_kind"), [(Fabric, SyncFabric), (Handle, SyncHandle)])
def test_every_method_is_there_with_the_same_signature(kind: type, sync_kind: type) -> None:
    names = {name for name in dir(kind) if not name.startswith("_")} - ASYNC_ONLY
    assert names <= {name for name in dir(sync_kind) if not name.startswith("_")}
    for name in names - {"connect"}:
        ours, theirs = (inspect.signature(getattr(each, name)).parameters for each in (sync_kind, kind))
        if name not in ("submit", "submit_many"):  # overloads, which the type checker's test compares
            assert [*ours] == [*theirs], name


def test_a_closed_fabric_says_so(url: str) -> None:
    fabric = SyncFabric.connect(url)
    handle = fabric.submit(double.with_options(lane="sync-closed"), 1)
    fabric.close()
    fabric.close()
    with pytest.raises(BackendUnavailable, match="closed; connect again"):
        handle.status()


def test_closing_ends_the_calls_under_way(url: str) -> None:
    fabric = SyncFabric.connect(url)
    handle = fabric.submit(double.with_options(lane="sync-under-way"), 1)
    following = threading.Event()

    def follow() -> None:
        for _ in handle.events():  # the first event comes at once, the next one never
            following.set()

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(follow)
        assert following.wait(30)
        fabric.close()
        with pytest.raises(BackendUnavailable):
            ended.result(30)


def test_a_fork_is_told_to_connect_for_itself(fabric: SyncFabric) -> None:
    handle = fabric.submit(double.with_options(lane="sync-fork"), 1)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            fabric.close()  # nothing to do here, and nothing happens to the parent
            handle.status()
        except BackendUnavailable as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as said:
        assert "connect again after a fork" in said.read()
    assert handle.status() == "waiting"


def test_a_portal_cannot_be_called_from_its_own_loop() -> None:
    portal = Portal()

    async def inner() -> None:
        portal.run(asyncio.sleep, 0)

    try:
        with pytest.raises(BackendUnavailable, match="use Fabric"):
            portal.run(inner)
    finally:
        portal.close()


def test_a_failed_connect_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    with pytest.raises(InvalidInput):
        SyncFabric.connect("nonsense://")
    assert threading.active_count() == before


@pytest.mark.parametrize(
    "ending", ["", "raise SystemExit(3)", "import threading; threading.Thread(target=print).start()"]
)
def test_a_script_that_forgets_to_close_ends_cleanly(ending: str) -> None:
    code = (
        "from flowfabric.client.sync.fabric import SyncFabric\n"
        "fabric = SyncFabric.connect('embedded://')\n"
        "handle = fabric.submit('anything', 1)\n"
        f"print(handle.status())\n{ending}"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout.startswith("waiting")
    assert ended.stderr == ""
    assert ended.returncode == (3 if "SystemExit" in ending else 0)


def test_limits_are_the_same_without_a_loop(fabric: SyncFabric) -> None:
    budget = fabric.budgets.create({"tokens": 5})
    fabric.budgets.report(budget, {"tokens": 2})
    assert fabric.budgets.status(budget).usage == {"tokens": 2}
    assert fabric.quotas.status(fabric.quotas.create(max_concurrent=3)).room == 3
    for mine, theirs in ((fabric.budgets, Budgets), (fabric.quotas, Quotas)):
        assert {name for name in dir(theirs) if not name.startswith("_")} <= set(dir(mine))
