"""Which exceptions end the worker, and which only the attempt of the handler that raised them."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flowfabric.worker.attempts.outcomes import TaskExited
from flowfabric.worker.context.current import running
from flowfabric.worker.executors.exits import ends_the_worker, guard_tasks, unguard_tasks

LOOP: Any = object()  # one that does not run


@pytest.fixture
def handled() -> Iterator[Callable[[int, Any], None]]:
    """Install a signal handler for the time of the test."""
    before: dict[int, Any] = {}

    def install(number: int, handler: Any) -> None:
        before.setdefault(number, signal.signal(number, handler))

    yield install
    for number, handler in before.items():
        signal.signal(number, handler)


def _raised(function: Callable[[], object]) -> BaseException:
    try:
        function()
    except BaseException as error:
        return error
    raise AssertionError("it did not raise")


def _interrupt() -> None:
    raise KeyboardInterrupt


def _interrupt_again() -> None:
    try:
        _interrupt()
    except KeyboardInterrupt:
        raise


def _exit_with_a_signal(number: int, frame: object) -> None:
    sys.exit(number)


@pytest.mark.parametrize("own", [_interrupt, _interrupt_again, sys.exit, lambda: int("x")])
@pytest.mark.parametrize("sigint", [signal.default_int_handler, signal.SIG_DFL, _exit_with_a_signal])
def test_what_code_raises_does_not_end_the_worker(own: Any, sigint: Any, handled: Any) -> None:
    handled(signal.SIGINT, sigint)
    assert not ends_the_worker(_raised(own), LOOP)


def test_ctrl_c_ends_the_worker(handled: Any) -> None:
    handled(signal.SIGINT, signal.default_int_handler)
    error = _raised(lambda: signal.raise_signal(signal.SIGINT))
    assert isinstance(error, KeyboardInterrupt)
    assert ends_the_worker(error, LOOP)


def test_a_program_that_exits_at_a_signal_ends(handled: Any) -> None:
    handled(signal.SIGTERM, _exit_with_a_signal)
    error = _raised(lambda: signal.raise_signal(signal.SIGTERM))
    assert isinstance(error, SystemExit)
    assert ends_the_worker(error, LOOP)


def test_a_second_ctrl_c_of_asyncio_ends_the_worker(handled: Any) -> None:
    """The first one cancels the main task; the second one raises wherever the program is."""
    handled(signal.SIGINT, signal.default_int_handler)
    seen: list[tuple[type, bool]] = []

    def blocks() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        error = _raised(blocks)
        seen.append((type(error), ends_the_worker(error, LOOP)))

    with pytest.raises(KeyboardInterrupt), asyncio.Runner() as runner:
        runner.run(main())
    assert seen == [(KeyboardInterrupt, True)]


def test_a_coroutine_that_is_closed_without_a_loop_is_not_the_handlers_error() -> None:
    assert ends_the_worker(GeneratorExit(), LOOP)


async def test_a_coroutine_of_another_loop_that_is_closed_is_not_the_handlers_error() -> None:
    assert ends_the_worker(GeneratorExit(), LOOP)


async def test_a_handler_that_raises_generator_exit_ends_its_attempt_only() -> None:
    assert not ends_the_worker(GeneratorExit(), asyncio.get_running_loop())


def _no_context() -> Any:
    raise AssertionError("nobody asks for it")


async def _exits() -> None:
    await asyncio.sleep(0)
    sys.exit(3)


async def test_a_task_of_a_handler_does_not_stop_the_loop() -> None:
    loop = asyncio.get_running_loop()
    guard_tasks(loop)
    running.set(_no_context)
    try:
        task = asyncio.create_task(_exits(), name="mine")
        with pytest.raises(TaskExited) as raised:
            await task
    finally:
        unguard_tasks(loop)
    assert raised.value.error.args == (3,)
    assert "_exits" in repr(task)
    assert task.get_name() == "mine"


async def test_a_task_that_is_cancelled_before_it_starts_leaves_nothing_behind(
    recwarn: pytest.WarningsRecorder,
) -> None:
    loop = asyncio.get_running_loop()
    guard_tasks(loop)
    running.set(_no_context)
    try:
        task = asyncio.create_task(_exits())
        task.cancel()
        await asyncio.wait([task])
    finally:
        unguard_tasks(loop)
    assert task.cancelled()
    assert not recwarn.list, "Python warns about a coroutine that was never awaited"


async def test_the_last_worker_of_a_loop_gives_the_task_factory_back() -> None:
    loop, made = asyncio.get_running_loop(), []

    def own(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(coroutine)
        return asyncio.Task(coroutine, loop=loop, **options)

    loop.set_task_factory(own)
    try:
        guard_tasks(loop)
        guard_tasks(loop)
        unguard_tasks(loop)
        assert loop.get_task_factory() is not own
        await asyncio.create_task(asyncio.sleep(0))
        assert len(made) == 1, "the loop's own factory makes the tasks"
        unguard_tasks(loop)
        assert loop.get_task_factory() is own
    finally:
        loop.set_task_factory(None)
