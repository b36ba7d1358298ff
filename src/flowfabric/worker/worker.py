"""The worker: register tasks, start, drain, stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, TypeAlias

from flowfabric.backends import open_backend
from flowfabric.backends.ports import EngineBackend
from flowfabric.client.secrets import ensure_secret
from flowfabric.client.tasks.options import Duration, TaskOptions, ms
from flowfabric.client.tasks.task import Task
from flowfabric.config import Settings
from flowfabric.errors import InvalidInput
from flowfabric.worker.clock import Clock, StoreClock
from flowfabric.worker.executors.dispatch import Middleware
from flowfabric.worker.log_settings import Logs, chosen_logs
from flowfabric.worker.loop import event_loop
from flowfabric.worker.loop.heartbeat import Open
from flowfabric.worker.loop.run import WorkerRun
from flowfabric.worker.loop.wiring import Connection, Lifespan, Program
from flowfabric.worker.registry import Registry, WorkerTaskDecorator
from flowfabric.worker.settings import WorkerSettings, make_settings
from flowfabric.worker.stats import WorkerStats

Store: TypeAlias = str | Settings | EngineBackend

# No second connection can be opened to it, so the heartbeat shares the worker's.
_THROW_AWAY: Final = "embedded://"


class Worker:
    """Claims and runs the tasks of its lanes.

    lanes: names, or names with weights; lanes that have work share the free slots by weight.
    capabilities: the capabilities it offers; work that needs more is left to other workers.
    concurrency: how many handlers run at once; `prefetch` more attempts are claimed ahead.
    lease_ttl_ms: how long after the death of this process other workers take its work over.
    grace: how long handlers may run on when the worker stops. cancel_grace: how long a cancelled handler may take.
    lifespan: an async context manager that is open while the worker runs; its value is `ctx.state`.
    middleware: async functions `(ctx, call_next)` around every attempt, the first one outermost.
    categories: failure categories by exception class.
    processes: how many processes run CPU tasks at once; by default one per processor.
    logs: which log records of handlers are kept with their executions: from a level on, as `Logs` says, or None.
    """

    def __init__(
        self,
        lanes: Sequence[str] | Mapping[str, int] = ("default",),
        *,
        capabilities: Collection[str] = (),
        concurrency: int = 64,
        prefetch: int = 0,
        lease_ttl_ms: int = 30_000,
        namespace: str = "default",
        worker_id: str = "worker",
        worker_instance_id: str | None = None,
        grace: Duration = 30,
        cancel_grace: Duration = 5,
        blocking_threshold: Duration = 0.5,
        processes: int | None = None,
        version: str = "",
        lifespan: Lifespan | None = None,
        middleware: Sequence[Middleware] = (),
        categories: Mapping[type[BaseException], str] | None = None,
        logs: Logs | str | None = "info",
    ) -> None:
        self.settings: WorkerSettings = make_settings(
            lanes=lanes,
            capabilities=capabilities,
            concurrency=concurrency,
            prefetch=prefetch,
            lease_ttl_ms=lease_ttl_ms,
            namespace=namespace,
            worker_id=worker_id,
            worker_instance_id=worker_instance_id,
            grace=grace,
            cancel_grace=cancel_grace,
            blocking_threshold=blocking_threshold,
            processes=processes,
            version=version,
        )
        self.stats = WorkerStats()
        self._registry = Registry()
        self.task = WorkerTaskDecorator(self._registry, TaskOptions(lane=next(iter(self.settings.lanes))))
        self._program = Program(
            self.settings, self._registry, tuple(middleware), lifespan, dict(categories or {}), chosen_logs(logs)
        )
        self._run: WorkerRun | None = None
        self._owned: EngineBackend | None = None

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """Its tasks, by name."""
        return dict(self._registry.tasks)

    @property
    def running(self) -> int:
        """How many handlers are running."""
        return 0 if self._run is None else self._run.running

    def add(self, *tasks: Task[..., Any], cpu: bool = False) -> None:
        """Add tasks that were made with `@task`."""
        for each in tasks:
            self._registry.add(each, cpu=cpu)

    async def run(self, store: Store | None = None, *, keeper: str | Settings | None = None) -> None:
        """Work until SIGTERM or SIGINT, then drain. A second signal stops at once. Without a store: FLOWFABRIC_URL.

        Leases are renewed over a connection of their own. If `store` is an opened backend, pass its URL as `keeper`;
        otherwise renewals share the backend's connection.
        """
        ending, at_once = asyncio.Event(), asyncio.Event()

        def signalled() -> None:
            (at_once if ending.is_set() else ending).set()

        with _signals(signalled):
            await self.start(store, keeper=keeper)
            try:
                await self._until(ending)
                await self._drain_unless(at_once)
            finally:
                await self._close()

    def run_blocking(self, store: Store | None = None, *, keeper: str | Settings | None = None) -> None:
        """Call `run` in a new event loop, with uvloop if it is installed."""
        event_loop.run(self.run(store, keeper=keeper))

    async def start(
        self, store: Store | None = None, *, keeper: str | Settings | None = None, clock: Clock | None = None
    ) -> None:
        """Begin to work and return, for embedding and for tests; `stop` ends it.

        clock: for tests, the store's time as handlers see it; by default it is estimated from the latest claim.
        """
        if self._run is not None:
            raise InvalidInput("worker", self.settings.worker_instance_id, "is already running; stop it first")
        if not self._registry.tasks:
            raise InvalidInput("tasks", (), "the worker has no tasks; add some with @worker.task or worker.add")
        try:
            backend, open_keeper, settings = await self._connect(store, keeper)
            connection = Connection(backend, clock or StoreClock(), settings.callback_url)
            self._run = await WorkerRun.start(self._program, connection, open_keeper, self.stats)
        except BaseException:
            await self._close()
            raise

    async def stop(self, *, grace: Duration | None = None) -> None:
        """Drain and stop: handlers have `grace` seconds to end, then their attempts are handed back."""
        if self._run is None:
            return
        try:
            await self._run.drain(self.settings.grace_ms if grace is None else ms("grace", grace))
        finally:
            await self._close()

    async def kill(self) -> None:
        """For tests: stop at once, as a killed process does. The store is not notified, and leases expire."""
        await self._close()

    @asynccontextmanager
    async def working(
        self, store: Store | None = None, *, keeper: str | Settings | None = None
    ) -> AsyncIterator[Worker]:
        """`start` and `stop` as a context manager."""
        await self.start(store, keeper=keeper)
        try:
            yield self
        finally:
            await self.stop()

    async def idle(self) -> None:
        """Wait until it has looked for work, no handler runs, all ends are reported, and no work is known."""
        if self._run is not None:
            await self._run.idle()

    async def _connect(
        self, store: Store | None, keeper: str | Settings | None
    ) -> tuple[EngineBackend, Open | None, Settings]:
        if store is None or isinstance(store, str | Settings):
            settings = _settings(store)
            self._owned = backend = await open_backend(settings=settings)
        else:
            settings, backend = None, store
        mine = _settings(keeper) if keeper is not None else settings
        known = mine or _settings(None)
        await ensure_secret(backend, known)  # handlers may make waitpoints
        if mine is None or mine.url == _THROW_AWAY:
            return backend, None, known
        return backend, lambda: open_backend(settings=mine), known

    async def _until(self, ending: asyncio.Event) -> None:
        """Wait for the signal to stop, or raise the reason why the worker cannot work on."""
        assert self._run is not None
        failing, waiting = asyncio.create_task(self._run.failed()), asyncio.create_task(ending.wait())
        try:
            await asyncio.wait([failing, waiting], return_when=asyncio.FIRST_COMPLETED)
            if failing.done():
                failing.result()
        finally:
            for each in (failing, waiting):
                each.cancel()
                with contextlib.suppress(BaseException):
                    await each

    async def _drain_unless(self, at_once: asyncio.Event) -> None:
        assert self._run is not None
        draining = asyncio.create_task(self._run.drain(self.settings.grace_ms))
        hurry = asyncio.create_task(at_once.wait())
        await asyncio.wait([draining, hurry], return_when=asyncio.FIRST_COMPLETED)
        for each in (draining, hurry):
            each.cancel()
        for outcome in await asyncio.gather(draining, hurry, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome
        if at_once.is_set():
            await self._run.hurry()

    async def _close(self) -> None:
        run, self._run = self._run, None
        owned, self._owned = self._owned, None
        try:
            if run is not None:
                await run.close()
        finally:
            if owned is not None:
                await owned.close()


def _settings(store: str | Settings | None) -> Settings:
    if isinstance(store, Settings):
        return store
    settings = Settings.from_env()
    return settings if store is None else replace(settings, url=store)


@contextlib.contextmanager
def _signals(on_signal: Callable[[], None]) -> Iterator[None]:
    """Call `on_signal` at SIGTERM and SIGINT, if this thread may handle signals."""
    loop = asyncio.get_running_loop()
    handled = []
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, on_signal)
            handled.append(number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
