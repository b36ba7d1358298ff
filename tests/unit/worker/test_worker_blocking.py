"""A handler that blocks the loop is named, once, with the place where it does."""

from __future__ import annotations

import logging
import threading

import pytest

from flowfabric.worker import Worker
from tests.worker_fakes import FakeStore, worked


class Warned(logging.Handler):
    """Sets an event when a warning of this kind comes; in whichever thread."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []
        self.came = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "blocked the event loop" in record.getMessage():
            self.messages.append(record.getMessage())
            self.came.set()


@pytest.fixture
def warned() -> Warned:
    return Warned()


async def test_it_is_warned_of_once_with_its_place(warned: Warned) -> None:
    logger = logging.getLogger("flowfabric.worker")
    logger.addHandler(warned)
    worker, store = Worker(blocking_threshold=0.02, concurrency=1), FakeStore()
    waited: list[bool] = []

    def deep_inside() -> None:
        waited.append(warned.came.wait(30))

    @worker.task
    async def rude() -> None:
        deep_inside()

    try:
        store.give(rude)
        await worked(worker, store, rude)
    finally:
        logger.removeHandler(warned)
    assert waited == [True, True], "it was named while it blocked"
    (message,) = warned.messages
    assert "'rude'" in message
    assert "in deep_inside" in message


async def test_a_polite_handler_is_not_warned_of(warned: Warned) -> None:
    logger = logging.getLogger("flowfabric.worker")
    logger.addHandler(warned)
    worker, store = Worker(blocking_threshold=60), FakeStore()

    @worker.task
    async def polite() -> None: ...

    try:
        await worked(worker, store, polite)
    finally:
        logger.removeHandler(warned)
    assert warned.messages == []
