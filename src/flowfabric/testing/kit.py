"""A fabric for tests: the test drives the store's clock, the engine and the workers."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

from flowfabric.backends.ports import EngineBackend
from flowfabric.client.fabric import Fabric
from flowfabric.client.handle import Handle
from flowfabric.client.secrets import ensure_secret
from flowfabric.client.tasks.options import Duration, ms
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, FlowId
from flowfabric.engine import Engine, EngineSettings
from flowfabric.errors import BackendUnavailable, InvalidInput
from flowfabric.testing.clock import ManualClock, open_test_backend
from flowfabric.testing.fault_proxy import PatientLine
from flowfabric.testing.open_work import OpenExecution, Staff, StillOpen, open_work, still_open, suspended_in
from flowfabric.testing.workers import Crew
from flowfabric.worker import Worker

# A small test store: fewer partitions are scanned faster.
SMALL: Final = Settings(url="embedded://", num_flow_partitions=8, num_budget_partitions=2, num_quota_partitions=2)

# A run of the engine ends when its work is done, not after a time budget.
_ENGINE: Final = EngineSettings(budget_ms=60_000, jitter_pct=0)
_LOOK_EVERY_S: Final = 0.05


class FabricKit(Fabric):
    """A `Fabric` whose store has a manual clock, with an engine and workers that the test drives.

    async with FabricKit.connect() as kit:
        handle = await kit.submit(greet, "tides")
        await kit.run_until_idle(worker)
        assert await handle == "Hello, tides!"

    `patience`: how many real seconds it waits for handlers and results before it raises StillOpen.
    """

    patience: Duration = 10

    def __init__(self, backend: EngineBackend, clock: ManualClock, *, namespace: str = "default") -> None:
        self._line = PatientLine(backend, lambda: ms("patience", self.patience), self._why_open)
        super().__init__(self._line.end, namespace=namespace)
        self.clock = clock
        self.engine = Engine(backend, _ENGINE)
        self._store = backend
        self._crew = Crew(backend, clock)
        self._engine_turn = asyncio.Lock()

    @classmethod
    async def open(
        cls, where: str | Settings | None = None, *, namespace: str = "default", empty: bool = False
    ) -> Self:
        """Open a temporary embedded store, or the store at a URL; its library is replaced by one with a manual clock.

        With `empty` everything in the store is deleted first. The environment is ignored, so that a test never uses a
        real store by accident.
        """
        given = SMALL if where is None else where
        settings = given if isinstance(given, Settings) else Settings(url=given)
        backend, clock = await open_test_backend(settings.url, settings, empty=empty)
        if await ensure_secret(backend, settings) is None:
            await ensure_secret(backend, replace(settings, waitpoint_secret=secrets.token_hex(32)))
        return cls(backend, clock, namespace=namespace)

    async def close(self) -> None:
        """Stop the workers and close the store."""
        if self._closed:
            return
        try:
            await self._crew.close()
            await self.engine.stop()
        finally:
            await super().close()

    @property
    def now(self) -> datetime:
        """The store's time; compute the times that you pass as options from it."""
        return datetime.fromtimestamp(self.clock.now_ms / 1000, UTC)

    async def advance(self, seconds: Duration) -> None:
        """Move the clock and apply everything that is due by then. Running handlers keep their leases."""
        await self._crew.live_through(ms("seconds", seconds))
        await self.apply_due()

    async def sleep_through(self, execution: Handle[Any] | str) -> None:
        """Move the clock to the end of a suspended execution's sleep, or to the timeout of its wait.

        Use `handle.signal(...)` for an execution that waits for a signal.
        """
        execution_id = _id_of(execution)
        async for each in suspended_in(self._store):
            if each.execution_id == execution_id and each.timeout_at is not None:
                left_ms = max(0, each.timeout_at - self.clock.now_ms)
                return await self.advance(timedelta(milliseconds=left_ms))
        raise InvalidInput("execution", execution_id, "neither sleeps nor waits with a timeout")

    async def apply_due(self) -> None:
        """Run the engine once: apply expired leases, delays, timeouts, deadlines and retention."""
        async with self._engine_turn:
            before = self._engine_errors()
            await self.engine.run_once()
            after = self._engine_errors()
        failed = [f"{name}: {error}" for name, (count, error) in after.items() if count > before[name][0]]
        if failed:
            raise AssertionError("the engine failed; " + "; ".join(failed))

    async def run_until_idle(self, *workers: Worker, timeout: Duration | None = None) -> None:  # noqa: ASYNC109
        """Run everything that can run at the current time, with these workers and those that were started.

        When it returns, every open execution waits for a time, a signal or an operator. Raises StillOpen if an
        execution waits for a worker that does not exist, or a handler has not ended after `timeout` (default:
        `patience`) real seconds.
        """
        loop, timeout = asyncio.get_running_loop(), self.patience if timeout is None else timeout
        until = loop.time() + ms("timeout", timeout) / 1000
        async with self._crew.at_work(workers):
            unknown = self._count("unknown")
            while True:
                is_quiet, claimed = await self._crew.idle(_LOOK_EVERY_S), self._count("claimed")
                await self.apply_due()
                found, goes_on = await self._look(workers, handed_back=self._count("unknown") > unknown)
                if not goes_on and is_quiet and claimed == self._count("claimed"):
                    break
                if loop.time() > until:
                    raise await self._still_open(f"not idle after {timeout} seconds", found)
            if found:
                raise await self._still_open("no worker can run", found)

    async def start_worker(self, worker: Worker) -> None:
        """Start a worker; it works until it is stopped or killed."""
        await self._crew.start(worker)

    async def stop_worker(self, worker: Worker) -> None:
        """Drain a worker: it claims no more, and hands unfinished attempts back."""
        await self._crew.stop(worker)

    async def kill_worker(self, worker: Worker) -> None:
        """Kill a worker: it reports nothing, and its leases stay until they expire. It can be started again.

        When one of its own handlers calls this, the worker dies at that line. Its handlers are cancelled, unlike those
        of a killed process, but their later calls do not reach the store.
        """
        await self._crew.kill(worker)

    async def expire_lease(self, execution: Handle[Any] | str) -> None:
        """Revoke the lease of a running execution, so that another worker can claim it.

        A handler that still runs learns of it at the next renewal; the store refuses its calls.
        """
        args = c.RevokeLeaseArgs(execution_id=_id_of(execution), reason="expired by a test")
        await self._store.revoke_lease(args)
        await self.apply_due()

    def fail_next(self, operation: str, error: Exception | None = None, *, times: int = 1) -> None:
        """Make the next calls of a port method fail before they reach the store; workers are not affected.

        `operation` is a method of `EngineBackend`; `submit` uses submit_executions, as `submit_many` does.
        """
        unreachable = BackendUnavailable("the test made this call fail", sent=False)
        self._line.fail_next(operation, error or unreachable, times)

    async def _look(self, given: tuple[Worker, ...], *, handed_back: bool) -> tuple[list[OpenExecution], bool]:
        """The open executions, and whether any of them can still make progress."""
        alive = list(self._crew)
        staff = Staff(alive, killed=[worker for worker in given if worker not in alive])
        found = []
        async for each in open_work(self._store, staff, handed_back=handed_back):
            found.append(each)
            if each.goes_on:
                return found, True
        return found, False

    async def _still_open(self, problem: str, found: list[OpenExecution]) -> StillOpen:
        workers = await self._store.list_workers(c.ListWorkersArgs(limit=1_000))
        return StillOpen(problem, found, workers.workers)

    async def _why_open(self, subject: ExecutionId | FlowId) -> Exception:
        problem = f"it has not ended after {self.patience} seconds; run_until_idle, or advance the clock"
        return await self._still_open(problem, await still_open(self._store, subject))

    def _count(self, name: str) -> int:
        return sum(getattr(worker.stats, name) for worker in self._crew)

    def _engine_errors(self) -> dict[str, tuple[int, str | None]]:
        return {each.name: (each.errors, each.last_error) for each in self.engine.status().services}


def _id_of(execution: Handle[Any] | str) -> ExecutionId:
    return execution.id if isinstance(execution, Handle) else ExecutionId(execution)
