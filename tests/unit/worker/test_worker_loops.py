"""The loop of a worker's own process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from types import SimpleNamespace

import pytest

from flowfabric.worker import Worker
from flowfabric.worker.loop import event_loop
from tests.worker_fakes import FakeStore


class QuickLoop(asyncio.SelectorEventLoop):
    """Stands for uvloop's."""


async def kind_of_loop() -> type:
    return type(asyncio.get_running_loop())


def test_uvloop_is_used_where_it_is_installed_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", SimpleNamespace(new_event_loop=QuickLoop))
    assert event_loop.run(kind_of_loop()) is QuickLoop
    assert asyncio.run(kind_of_loop()) is not QuickLoop


def test_without_uvloop_it_is_the_ordinary_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert event_loop.run(kind_of_loop()) is asyncio.run(kind_of_loop())


def test_a_worker_that_is_the_program_runs_there_until_it_is_told_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", SimpleNamespace(new_event_loop=QuickLoop))
    worker, store, seen = Worker(), FakeStore(), []

    @worker.task
    async def handler() -> None:
        seen.append(await kind_of_loop())
        os.kill(os.getpid(), signal.SIGTERM)

    store.give(handler)
    worker.run_blocking(store.port)
    assert seen == [QuickLoop]
    assert worker.stats.completed == 1
