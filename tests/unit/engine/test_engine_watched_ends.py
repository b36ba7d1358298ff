"""Watchers of ended executions are signalled, each on its own: one that cannot be told delays no other."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId
from flowfabric.core.partition import Partition, PartitionConfig
from flowfabric.engine.services.watched_ends import WatchedEnds
from flowfabric.errors import Conflict, ExecutionNotFound, FlowFabricError, Limited
from tests.engine_fakes import Scene

FULL = "signal_limit_exceeded"


def _id() -> ExecutionId:
    return ExecutionId.for_lane(LaneId("default"), PartitionConfig())


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene()


async def test_refusals_that_need_no_signal_are_done_and_others_wait(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.use(1)
    answers: dict[ExecutionId, FlowFabricError | None] = {
        _id(): None,
        _id(): ExecutionNotFound("gone"),
        _id(): Conflict("does not wait", code="target_not_signalable"),
        _id(): Limited("full", code=FULL),
    }
    left = [c.WatchedEnd(execution_id=_id(), watcher_id=each) for each in answers]
    signalled: list[str] = []

    async def read(partition: Partition, *, done: Any = (), limit: int = 100) -> list[c.WatchedEnd]:
        for each in done:
            left.remove(each)
        return list(left)

    async def signal(args: c.SignalExecutionArgs) -> None:
        signalled.append(args.signal_name)
        if error := answers[args.execution_id]:
            raise error

    monkeypatch.setattr(scene.store, "read_watched_ends", read)
    monkeypatch.setattr(scene.store, "signal_execution", signal, raising=False)
    service = WatchedEnds(scene.around)
    assert await service.run_once() == 3
    assert [str(answers[each.watcher_id]) for each in left] == [f"{FULL}: full"]
    assert set(signalled) == {"child_ended"}
    assert (service.errors, service.set_aside.shown(0)) == (2, ())
