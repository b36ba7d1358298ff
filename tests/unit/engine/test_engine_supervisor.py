"""The engine as a whole: it runs, restarts, reports and stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from flowfabric.core.ids import LaneId
from flowfabric.engine import Engine, EngineSettings
from flowfabric.engine.services.due_work import DueWork
from flowfabric.engine.services.rebroadcast import Rebroadcast
from flowfabric.errors import BackendUnavailable
from tests.engine_fakes import FakeStore, ManualTimer, part, settle

NAMES = [
    "share", "partitions", "due_work", "listening", "due_listening", "admissions", "watched_ends", "budgets",
    "budget_listening", "blocked_work", "rebroadcast", "worker_expiry", "reconcile", "retention", "index_repair",
]  # fmt: skip


class Machine:
    def __init__(self, **settings: Any) -> None:
        self.timer = ManualTimer()
        self.store = FakeStore(self.timer)
        self.engine = Engine(
            self.store.backend,
            EngineSettings(**{"jitter_pct": 0, **settings}),
            replica_id="me",
            timer=self.timer,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Engine]:
        async with self.engine:
            await settle()
            yield self.engine


async def test_one_run_of_everything_goes_in_a_fixed_order() -> None:
    machine = Machine()
    machine.store.in_use = [part(1)]
    machine.store.due_in(part(1), 0)
    machine.store.silent_workers = 3
    done = [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 3, 0, 0, 0]
    assert list((await machine.engine.run_once()).items()) == list(zip(NAMES, done, strict=True))
    assert [name for name, _ in machine.store.calls] == [
        "hold_share", "partitions_in_use", "next_due", "run_due_work", "next_due", "drain_admissions",
        "read_watched_ends", "budget_partitions_in_use", "list_workers", "reevaluate_blocked", "announce_work",
        "expire_workers", "forget_parked_claims", "limit_partitions_in_use", "trim_executions", "repair_indexes",
    ]  # fmt: skip
    await machine.engine.stop()
    assert machine.store.holds[-1].leave


async def test_services_run_at_their_own_pace() -> None:
    machine = Machine()
    machine.store.in_use = [part(1)]
    async with machine.running():
        await machine.timer.advance(59_990)
    calls = machine.store.calls
    seen = {name: sum(each == name for each, _ in calls) for name, _ in calls}
    assert seen["hold_share"] == 61  # 60 and the last, which gives it up
    assert seen["announce_work"] == 60
    assert 4 <= seen["reevaluate_blocked"] <= 5  # after 10 s, and every 20 s, as nothing is blocked
    assert seen["expire_workers"] == 12
    assert seen["trim_executions"] == 1
    assert 20 <= seen["repair_indexes"] <= 60
    assert seen["partitions_in_use"] == 30
    assert 30 <= seen["next_due"] <= 35


async def test_the_status_can_be_sent_as_it_is() -> None:
    machine = Machine()
    machine.store.in_use = [part(index) for index in range(16)]
    machine.store.replicas = ("me", "you")
    async with machine.running() as engine:
        status = engine.status()
        assert (status.replica_id, status.replicas, status.running) == ("me", ("me", "you"), True)
        assert status.partitions_in_use == 16
        assert 0 < status.partitions_owned < 16
        assert [service.name for service in status.services] == NAMES
        assert status.service("share").runs == 1
        assert msgspec.json.decode(msgspec.json.encode(status))["services"][0]["name"] == "share"
    assert not engine.status().running


async def test_a_crashed_service_starts_again_with_growing_waits_while_the_others_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine()
    crashes = 0

    async def crash(_: Rebroadcast) -> int:
        nonlocal crashes
        crashes += 1
        raise KeyError("a bug")

    monkeypatch.setattr(Rebroadcast, "run_next", crash)
    with caplog.at_level(logging.CRITICAL):
        async with machine.running() as engine:
            await machine.timer.advance(3_000)
            assert crashes == 5  # at 0, 100, 300, 700 and 1500 ms
            assert engine.status().service("rebroadcast").restarts == 5
            assert engine.status().service("rebroadcast").last_error == "KeyError: 'a bug'"
            assert engine.status().service("share").runs >= 3
            monkeypatch.undo()
            await machine.timer.advance(10_000)
            assert engine.status().service("rebroadcast").runs > 0


async def test_a_store_that_comes_back_is_used_again_at_once() -> None:
    machine = Machine()
    machine.store.in_use = [part(1)]
    for operation in ("hold_share", "partitions_in_use"):
        machine.store.failing[operation] = BackendUnavailable("gone", sent=False)
    async with machine.running() as engine:
        await machine.timer.advance(300_000)
        assert engine.status().service("partitions").errors > 100
        assert engine.status().service("partitions").restarts == 0
        machine.store.failing.clear()
        machine.store.due_in(part(1), 0)
        await machine.timer.advance(2_010)
        assert machine.store.due[part(1)] == []


async def test_stopping_ends_every_task_and_gives_the_share_up() -> None:
    before = asyncio.all_tasks()
    machine = Machine()
    machine.store.in_use = [part(1)]
    async with machine.running() as engine:
        await machine.timer.advance(500)
    assert asyncio.all_tasks() == before
    assert [hold.leave for hold in machine.store.holds] == [False, True]
    assert engine.status().partitions_owned == 0


async def test_stopping_waits_for_the_grace_and_no_longer() -> None:
    before = asyncio.all_tasks()
    machine = Machine(stop_grace_ms=2_000)
    machine.store.hanging["expire_workers"] = asyncio.Event()
    machine.engine.start()
    await settle()
    stopping = asyncio.create_task(machine.engine.stop())
    await machine.timer.advance(1_990)
    assert not stopping.done()
    await machine.timer.advance(20)
    await stopping
    assert asyncio.all_tasks() == before
    assert machine.store.holds[-1].leave


@pytest.mark.parametrize("trouble", ["fails", "hangs"])
async def test_stopping_does_not_depend_on_the_store(trouble: str) -> None:
    machine = Machine()
    machine.engine.start()
    await settle()
    if trouble == "fails":
        machine.store.failing["hold_share"] = BackendUnavailable("gone", sent=False)
    else:
        machine.store.hanging["hold_share"] = asyncio.Event()
    await machine.timer.pass_in(10_000, machine.engine.stop())
    assert not machine.engine.status().running


async def test_an_engine_lives_once() -> None:
    machine = Machine()
    async with machine.running() as engine:
        with pytest.raises(RuntimeError, match="create a new Engine"):
            engine.start()
    with pytest.raises(RuntimeError, match="create a new Engine"):
        engine.start()


async def test_a_partition_that_was_heard_of_is_looked_at_before_it_is_found() -> None:
    machine = Machine()
    async with machine.running() as engine:
        machine.store.due_in(part(7), 0)
        engine.hear(part(7))
        await machine.timer.advance(10)
        assert machine.store.due[part(7)] == []


async def test_replicas_have_ids_of_their_own() -> None:
    machine = Machine()
    one, two = Engine(machine.store.backend), Engine(machine.store.backend)
    assert one.status().replica_id != two.status().replica_id
    assert isinstance(one.services[2], DueWork)


@pytest.mark.parametrize("pct", [0, 25])
async def test_replicas_drift_apart_by_their_jitter(pct: int) -> None:
    machine = Machine(jitter_pct=pct)
    pauses = {machine.engine.services[0].next_in_ms() for _ in range(50)}
    assert all(1_000 * (1 - pct / 100) <= pause <= 1_000 * (1 + pct / 100) for pause in pauses)
    assert (len(pauses) > 1) == (pct > 0)


async def test_where_work_was_announced_the_engine_looks_sooner() -> None:
    machine = Machine(look_ms=60_000)
    machine.store.in_use = [part(1)]
    machine.store.lanes = [LaneId("a")]
    async with machine.running():
        await machine.timer.advance(200_000)
        machine.store.due_in(part(1), 10)
        machine.store.announced.put_nowait(frozenset({(LaneId("a"), part(1))}))
        await machine.timer.advance(20)
        assert machine.store.due[part(1)] == []
