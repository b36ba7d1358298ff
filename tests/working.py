"""What tests of workers on a real store share: an empty store, submitting, and an engine's turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from flowfabric.backends.ports import EngineBackend
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.client.tasks.task import Task
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import ExecutionId, LaneId, Namespace
from flowfabric.core.partition import lane_partitions
from flowfabric.core.states import PublicState
from flowfabric.testing import ManualClock
from tests.valkey.probe import open_clean

ENDS_WITHIN_MS = 60_000


class Store:
    """An empty store whose time stands still, with the hands of a client, an operator and an engine."""

    def __init__(self, backend: ValkeyBackend, clock: ManualClock, url: str) -> None:
        self.backend = backend
        self.clock = clock
        self.url = url

    async def submit(self, task: Task[..., Any], *args: Any, **kwargs: Any) -> ExecutionId:
        return await submit(self.backend, task, *args, **kwargs)

    async def submit_many(self, task: Task[..., Any], count: int, **fields: Any) -> list[ExecutionId]:
        """So many executions of a task without arguments; fields are those of CreateExecutionArgs."""
        return await submit_batch(self.backend, [_args(self.backend, task, (), {}, **fields) for _ in range(count)])

    async def command(self, name: str, key: str, *rest: str | bytes | int) -> Any:
        """A command past all ports, for who spoils the store."""
        return await self.backend.client.execute(name, key, *rest, key=key)

    async def ended(self, execution_id: ExecutionId) -> PublicState:
        state = await self.backend.wait_for_execution(execution_id, timeout_ms=ENDS_WITHIN_MS)
        assert state is not None, "it has not ended"
        return state

    async def result(self, task: Task[..., Any], execution_id: ExecutionId) -> Any:
        assert await self.ended(execution_id) is PublicState.COMPLETED
        found = await self.backend.get_execution_result(execution_id)
        assert found is not None
        return task.decode_result(found.payload)

    async def snapshot(self, execution_id: ExecutionId) -> c.ExecutionSnapshot:
        found = await self.backend.describe_execution(execution_id)
        assert found is not None
        return found

    async def until_state(self, execution_id: ExecutionId, *states: str) -> c.ExecutionSnapshot:
        """Follow its events until it is in one of these states."""
        async for _ in self.backend.tail_events(execution_id):
            snapshot = await self.snapshot(execution_id)
            if snapshot.public_state in states:
                return snapshot
        raise AssertionError(f"it ended and never was {states}")

    async def cancel(self, execution_id: ExecutionId) -> None:
        source = c.CancelSource.OPERATOR_OVERRIDE
        args = c.CancelExecutionArgs(execution_id=execution_id, reason="enough", source=source)
        await self.backend.cancel_execution(args)

    async def revoke(self, execution_id: ExecutionId) -> None:
        await self.backend.revoke_lease(c.RevokeLeaseArgs(execution_id=execution_id, reason="tests"))

    async def pass_time(self, ms: int) -> None:
        """Let time pass, and have an engine do what is due then."""
        await self.clock.advance(ms)
        await run_due_work(self.backend)

    async def events(self, execution_id: ExecutionId) -> list[str]:
        return [event.event for event in (await self.backend.history(execution_id)).events]


@asynccontextmanager
async def clean_store(url: str) -> AsyncIterator[Store]:
    backend = await open_clean(url)
    try:
        yield Store(backend, await ManualClock.start(backend.client), url)
    finally:
        await backend.close()


async def submit(backend: EngineBackend, task: Task[..., Any], *args: Any, **kwargs: Any) -> ExecutionId:
    return (await backend.create_execution(_args(backend, task, args, kwargs))).execution_id


async def submit_with(backend: EngineBackend, task: Task[..., Any], **fields: Any) -> ExecutionId:
    """An execution of a task without arguments; fields are those of CreateExecutionArgs."""
    return (await backend.create_execution(_args(backend, task, (), {}, **fields))).execution_id


def _args(
    backend: EngineBackend, task: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], **fields: Any
) -> c.CreateExecutionArgs:
    lane = LaneId(task.options.lane)
    usual: dict[str, Any] = {
        "execution_id": ExecutionId.for_lane(lane, backend.partitions),
        "namespace": Namespace("tests"),
        "lane_id": lane,
        "execution_kind": task.name,
        "input_payload": task.encode_arguments(*args, **kwargs),
        "payload_encoding": "json",
        "policy": task.options.policy,
        "tags": dict(task.options.tags),
    }
    return c.CreateExecutionArgs(**{**usual, **fields})


async def submit_batch(backend: EngineBackend, batch: Sequence[c.CreateExecutionArgs]) -> list[ExecutionId]:
    outcomes = await backend.submit_executions(batch)
    assert all(isinstance(outcome, c.ExecutionCreated) for outcome in outcomes)
    return [args.execution_id for args in batch]


def lane_beside(lane: LaneId, backend: EngineBackend) -> LaneId:
    """Another lane in the same partition."""
    (partition,) = lane_partitions(lane, backend.partitions)
    names = (LaneId(f"{lane}-{number}") for number in range(10_000))
    return next(name for name in names if lane_partitions(name, backend.partitions) == [partition])


async def run_due_work(backend: EngineBackend) -> None:
    """One turn of an engine over the partitions that are in use."""
    for partition in await backend.partitions_in_use():
        while (await backend.run_due_work(b.RunDueWorkArgs(partition=partition))).more:
            pass


async def happened(event: threading.Event) -> None:
    """Wait for a thread without blocking the loop."""
    assert await asyncio.to_thread(event.wait, ENDS_WITHIN_MS / 1000), "it did not happen"
