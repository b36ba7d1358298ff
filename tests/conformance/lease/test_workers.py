"""The workers of a store: who lives, what it offers, and how it is forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.ids import LaneId, Namespace, WorkerId, WorkerInstanceId
from flowfabric.errors import Conflict, InvalidInput
from tests.stores.probe import Clock, Probe

TTL = 10_000


async def register(backend: EngineBackend, instance: str = "w-1", **overrides: Any) -> c.RegisterWorkerResult:
    args: dict[str, Any] = {
        "namespace": "tests", "worker_id": "w", "worker_instance_id": instance, "lanes": ("default",), "ttl_ms": TTL,
        **overrides,
    }  # fmt: skip
    return await backend.register_worker(c.RegisterWorkerArgs(**args))


async def heartbeat(backend: EngineBackend, instance: str = "w-1", namespace: str = "tests") -> c.HeartbeatWorkerResult:
    args = c.HeartbeatWorkerArgs(namespace=namespace, worker_instance_id=instance)  # type: ignore[arg-type]
    return await backend.heartbeat_worker(args)


async def mark_dead(backend: EngineBackend, instance: str = "w-1", namespace: str = "tests") -> c.MarkWorkerDeadResult:
    args = c.MarkWorkerDeadArgs(namespace=namespace, worker_instance_id=instance, reason="stopped")  # type: ignore[arg-type]
    return await backend.mark_worker_dead(args)


async def names(backend: EngineBackend, **args: Any) -> list[str]:
    page = await backend.list_workers(c.ListWorkersArgs(**args))
    return [worker.worker_instance_id for worker in page.workers]


async def test_a_worker_is_listed_with_what_it_told(backend: EngineBackend, clock: Clock) -> None:
    result = await register(
        backend, lanes=["b", "a", "a"], capabilities={"gpu", "cpu"}, version="1.2", host="somewhere", slots=8
    )
    assert result == c.WorkerRegistered()
    (worker,) = (await backend.list_workers(c.ListWorkersArgs())).workers
    assert worker == c.WorkerInfo(
        namespace=Namespace("tests"), worker_id=WorkerId("w"), worker_instance_id=WorkerInstanceId("w-1"),
        lanes=(LaneId("a"), LaneId("b")), capabilities=("cpu", "gpu"), version="1.2", host="somewhere", slots=8,
        registered_at=clock.now_ms, last_heartbeat_at=clock.now_ms,
        expires_at=clock.now_ms + TTL,
    )  # fmt: skip


async def test_one_that_registers_again_says_anew_what_it_offers(backend: EngineBackend, clock: Clock) -> None:
    await register(backend, capabilities=("gpu",), version="1", host="somewhere", slots=8)
    first = clock.now_ms
    await clock.advance(1_000)
    assert await register(backend, lanes=("other",), ttl_ms=2 * TTL) == c.WorkerRefreshed()
    (worker,) = (await backend.list_workers(c.ListWorkersArgs())).workers
    assert (worker.lanes, worker.capabilities, worker.version, worker.host, worker.slots) == (("other",), (), "", "", 0)
    assert (worker.registered_at, worker.expires_at) == (first, clock.now_ms + 2 * TTL)


async def test_an_instance_has_one_worker_while_it_lives(backend: EngineBackend, clock: Clock) -> None:
    await register(backend)
    with pytest.raises(Conflict) as caught:
        await register(backend, worker_id="another")
    assert (caught.value.code, caught.value.details["worker_id"]) == ("worker_instance_in_use", "w")
    await clock.advance(TTL)
    assert await register(backend, worker_id="another") == c.WorkerRegistered()


async def test_a_heartbeat_prolongs_a_life(backend: EngineBackend, clock: Clock) -> None:
    await register(backend)
    for _ in range(3):
        await clock.advance(TTL - 1)
        assert await heartbeat(backend) == c.HeartbeatAccepted(next_expiry_ms=clock.now_ms + TTL)
    (worker,) = (await backend.list_workers(c.ListWorkersArgs())).workers
    assert worker.last_heartbeat_at == clock.now_ms
    assert worker.registered_at < clock.now_ms
    assert await backend.expire_workers() == 0


async def test_one_that_was_silent_for_too_long_must_register_again(backend: EngineBackend, clock: Clock) -> None:
    await register(backend)
    await clock.advance(TTL)
    assert await heartbeat(backend) == c.WorkerNotRegistered()
    assert await register(backend) == c.WorkerRegistered()
    (worker,) = (await backend.list_workers(c.ListWorkersArgs())).workers
    assert worker.registered_at == clock.now_ms


async def test_the_dead_are_not_listed_even_before_they_are_forgotten(backend: EngineBackend, clock: Clock) -> None:
    await register(backend, "w-1")
    await clock.advance(TTL - 1)
    await register(backend, "w-2")
    assert await names(backend) == ["w-1", "w-2"]
    await clock.advance(1)
    assert await names(backend) == ["w-2"]


async def test_the_dead_are_forgotten_a_bounded_number_at_a_time(
    probe: Probe, backend: EngineBackend, clock: Clock
) -> None:
    before = await probe.dump()
    for at in range(5):
        await register(backend, f"w-{at}")
    await clock.advance(TTL)
    assert [await backend.expire_workers(limit=3) for _ in range(3)] == [3, 2, 0]
    assert await probe.dump() == before


async def test_one_that_is_marked_dead_is_gone_at_once(probe: Probe, backend: EngineBackend, clock: Clock) -> None:
    before = await probe.dump()
    await register(backend)
    assert await mark_dead(backend) == c.WorkerMarkedDead()
    assert await names(backend) == []
    assert await heartbeat(backend) == c.WorkerNotRegistered()
    assert await mark_dead(backend) == c.WorkerNotRegistered()
    assert await probe.dump() == before


async def test_marking_one_that_is_dead_already_says_so(backend: EngineBackend, clock: Clock) -> None:
    await register(backend)
    await clock.advance(TTL)
    assert await mark_dead(backend) == c.WorkerNotRegistered()


async def test_namespaces_do_not_meet(backend: EngineBackend, clock: Clock) -> None:
    for namespace in ("a", "a:b", "a%3Ab", "b", "a;"):
        await register(backend, "w", namespace=namespace, worker_id=f"of {namespace}")
    await register(backend, "b:w", namespace="a")
    listed = (await backend.list_workers(c.ListWorkersArgs())).workers
    assert {worker.namespace for worker in listed} == {"a", "a:b", "a%3Ab", "b", "a;"}
    (worker,) = (await backend.list_workers(c.ListWorkersArgs(namespace=Namespace("a:b")))).workers
    assert (worker.namespace, worker.worker_id) == ("a:b", "of a:b")
    assert await names(backend, namespace="a") == ["b:w", "w"]
    await mark_dead(backend, "w", "a:b")
    assert await names(backend, namespace="a:b") == []
    assert await names(backend, namespace="a") == ["b:w", "w"]


async def test_lanes_may_hold_commas(backend: EngineBackend, clock: Clock) -> None:
    odd = tuple(sorted(map(LaneId, ("a,b", "50%", "50%2C", "a"))))
    await register(backend, lanes=odd)
    (worker,) = (await backend.list_workers(c.ListWorkersArgs())).workers
    assert worker.lanes == odd


async def test_a_list_goes_page_by_page_whoever_comes_and_goes(backend: EngineBackend, clock: Clock) -> None:
    for at in range(7):
        await register(backend, f"w-{at}", ttl_ms=TTL if at % 3 else 2 * TTL)
    page = await backend.list_workers(c.ListWorkersArgs(limit=3))
    assert [worker.worker_instance_id for worker in page.workers] == ["w-0", "w-1", "w-2"]
    await mark_dead(backend, "w-2")  # where the page ended
    await clock.advance(TTL)  # and the end of 1, 4 and 5
    await register(backend, "w-50")
    rest = await backend.list_workers(c.ListWorkersArgs(cursor=page.next_cursor))
    assert [worker.worker_instance_id for worker in rest.workers] == ["w-3", "w-50", "w-6"]
    assert rest.next_cursor is None


async def test_a_page_that_ends_with_the_last_has_no_cursor(backend: EngineBackend, clock: Clock) -> None:
    for at in range(4):
        await register(backend, f"w-{at}")
    page = await backend.list_workers(c.ListWorkersArgs(limit=2))
    last = await backend.list_workers(c.ListWorkersArgs(limit=2, cursor=page.next_cursor))
    assert (len(last.workers), last.next_cursor) == (2, None)


async def test_a_store_without_workers_lists_none(backend: EngineBackend) -> None:
    assert await backend.list_workers(c.ListWorkersArgs()) == c.ListWorkersPage()
    assert await backend.expire_workers() == 0


async def test_a_cursor_of_another_list_is_refused(backend: EngineBackend) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        await backend.list_workers(c.ListWorkersArgs(cursor="nonsense"))


@pytest.mark.parametrize("limit", [0, 1_001])
async def test_a_bad_limit_is_refused(backend: EngineBackend, limit: int) -> None:
    with pytest.raises(InvalidInput, match="limit"):
        await backend.expire_workers(limit=limit)


@pytest.mark.parametrize(
    ("field", "value"),
    [("lanes", ()), ("lanes", "default"), ("lanes", [""]), ("ttl_ms", 999), ("slots", -1), ("host", "a\nb")],
)
def test_bad_facts_are_refused_by_name(field: str, value: object) -> None:
    good: dict[str, Any] = {
        "namespace": "tests", "worker_id": "w", "worker_instance_id": "w-1", "lanes": ("default",), "ttl_ms": TTL,
    }  # fmt: skip
    with pytest.raises(InvalidInput, match=field):
        c.RegisterWorkerArgs(**good | {field: value})
