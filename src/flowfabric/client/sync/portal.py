"""A portal: one thread with an event loop that other threads call into."""

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
    """Runs coroutines for callers without an event loop, from any number of threads of one process."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()  # no call is sent to the loop after it was stopped
        self._closed = False
        self._is_exiting = False
        # A daemon, because the interpreter joins other threads before atexit handlers can close this one.
        self._thread = threading.Thread(target=self._serve, name="flowfabric-portal", daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Whether it can be called: it is not closed, and this is not a fork, which lacks the thread."""
        return not self._closed and os.getpid() == self._pid

    def run(self, function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `function` in the loop and wait for its outcome; an interrupted caller cancels it."""
        self._check_caller()
        with self._lock:
            if self._closed:
                raise BackendUnavailable("the connection is closed; connect again", sent=False)
            future = asyncio.run_coroutine_threadsafe(function(*args, **kwargs), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise BackendUnavailable("the connection was closed during this call", sent=True) from None
        except BaseException:
            future.cancel()  # no effect if it has ended
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """The items one by one; leaving the loop early closes their source."""
        try:
            while (item := self.run(_next, items)) is not _END:
                yield cast("T", item)
        finally:
            if self.is_open:
                self.run(_close, items)

    def close(self) -> None:
        """Stop the loop and its thread. Does nothing in a forked process, which has neither."""
        if not self.is_open:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def work_without_threads(self) -> None:
        """Run blocking work in the loop's own thread: at interpreter exit thread pools accept no more work."""
        if self.is_open:
            self._is_exiting = True
            self._loop.call_soon_threadsafe(self._loop.set_default_executor, _Inline())

    def _check_caller(self) -> None:
        if os.getpid() != self._pid:
            problem = f"opened in process {self._pid} but used in {os.getpid()}; connect again after a fork"
            raise BackendUnavailable(problem, sent=False)
        if threading.current_thread() is self._thread:
            raise BackendUnavailable("called from its own event loop, which would block; use Fabric", sent=False)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            if not self._is_exiting:  # it starts a thread, which Python 3.12 refuses at interpreter exit
                self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()


class _Inline(ThreadPoolExecutor):
    """Runs work at once, in the caller's thread."""

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
