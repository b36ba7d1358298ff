"""A portal: one thread with one event loop, into which any other thread calls."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar, cast

from flowfabric.errors import BackendUnavailable

P = ParamSpec("P")
T = TypeVar("T")


_END: Final = object()


class Portal:
    """Runs coroutines for callers that have no event loop. Good for any number of threads, in one process."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()  # nothing is sent to the loop after it was told to stop
        self._closed = False
        # A daemon, because the interpreter waits for other threads before it lets anybody close this one.
        self._thread = threading.Thread(target=self._serve, name="flowfabric-portal", daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Whether it can be called: not after its end, and not in a fork, which has the object but not the thread."""
        return not self._closed and os.getpid() == self._pid

    def run(self, function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `function` in the loop and wait for its outcome; whoever is interrupted cancels it."""
        self._check_caller()
        with self._lock:
            if self._closed:
                raise BackendUnavailable("this is closed; connect again", sent=False)
            future = asyncio.run_coroutine_threadsafe(function(*args, **kwargs), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise BackendUnavailable("it was closed while this call was under way", sent=True) from None
        except BaseException:
            future.cancel()  # without effect on one that has ended
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """The items one by one; leaving early closes their source."""
        try:
            while (item := self.run(_next, items)) is not _END:
                yield cast("T", item)
        finally:
            if self.is_open:
                self.run(_close, items)

    def close(self) -> None:
        """Stop the loop and its thread. Without effect in a forked process, which has neither."""
        if not self.is_open:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def work_without_threads(self) -> None:
        """From now on the loop runs blocking work itself: at the end of the process no pool takes any more."""
        if self.is_open:
            self._loop.call_soon_threadsafe(self._loop.set_default_executor, _Inline())

    def _check_caller(self) -> None:
        if os.getpid() != self._pid:
            problem = f"opened in process {self._pid} and used in {os.getpid()}: connect again after a fork"
            raise BackendUnavailable(problem, sent=False)
        if threading.current_thread() is self._thread:
            raise BackendUnavailable("called from its own event loop, which it would block: use Fabric", sent=False)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()


class _Inline(ThreadPoolExecutor):
    """Does the work at once, in the caller's thread."""

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(work(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)
        return done


async def _next(items: AsyncIterator[Any]) -> object:
    return await anext(items, _END)


async def _close(items: AsyncIterator[Any]) -> None:
    aclose = getattr(items, "aclose", None)
    if aclose is not None:
        await aclose()
