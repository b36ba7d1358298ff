"""Ten thousand executions wait at once: they hold nothing but a little memory, and none of them misses its signal."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from flowfabric import Settings
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.core import contracts as c
from flowfabric.core.conditions import ByName, Single
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import (
    ExecutionId,
    LaneId,
    Namespace,
    SignalId,
    SuspensionId,
    WaitpointKey,
    WorkerId,
    WorkerInstanceId,
)
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.core.states import PublicState
from flowfabric.core.tokens import Kid, SecretHex
from tests.servers import TestServer, start_standalone
from tests.soaking import tell

COUNT, SLOTS, AT_ONCE, WARM_UP, SAMPLE = 10_000, 500, 250, 500, 20
MOST_BYTES = 2_500
LANE, INSTANCE = LaneId("approvals"), WorkerInstanceId("worker-1")
APPROVAL = WaitpointKey("approval")
DAY_MS = 86_400_000


@dataclass
class Crowd:
    """All who wait, each with its waitpoint, and what the server said while nobody else was there."""

    server: TestServer
    waiting: dict[ExecutionId, c.IssuedWaitpoint]
    bytes_each: float
    connections: int
    counts: dict[PublicState, int]
    leases: int


@asynccontextmanager
async def opened(server: TestServer) -> AsyncIterator[ValkeyBackend]:
    backend = await ValkeyBackend.open(Settings(url=server.url))
    yield backend
    await backend.close()


def create_args(backend: ValkeyBackend) -> c.CreateExecutionArgs:
    return c.CreateExecutionArgs(
        execution_id=ExecutionId.for_lane(LANE, backend.partitions), namespace=Namespace("tests"), lane_id=LANE,
        execution_kind="expense", creator_identity="tests", input_payload=b'{"amount": 120}',
    )  # fmt: skip


def claim_args() -> b.ClaimExecutionsArgs:
    return b.ClaimExecutionsArgs(
        lane_id=LANE, worker_id=WorkerId("worker"), worker_instance_id=INSTANCE, lease_ttl_ms=30_000, count=AT_ONCE
    )


def suspend_args(work: b.ClaimedWork) -> c.SuspendExecutionArgs:
    """As a handler waits for an approval, for a day at most."""
    return c.SuspendExecutionArgs(
        execution_id=work.execution_id, fence=work.fence, attempt_index=work.attempt_index,
        suspension_id=SuspensionId.new(), waitpoints=(c.FreshWaitpoint.new(APPROVAL),),
        resume_condition=Single(APPROVAL, ByName("approved")), timeout_ms=DAY_MS,
        timeout_behavior=TimeoutBehavior.AUTO_RESUME_WITH_TIMEOUT_SIGNAL, continuation_metadata_pointer="approval#0",
        reason_code=c.SuspensionReasonCode.WAITING_FOR_APPROVAL,
    )  # fmt: skip


async def suspend_many(backend: ValkeyBackend, count: int) -> dict[ExecutionId, c.IssuedWaitpoint]:
    """Submit, claim and suspend so many; no more than the lane lets run at once have a lease together."""
    for start in range(0, count, AT_ONCE):
        await backend.submit_executions([create_args(backend) for _ in range(min(AT_ONCE, count - start))])
    waiting: dict[ExecutionId, c.IssuedWaitpoint] = {}
    while works := await backend.claim_executions(claim_args()):
        held = [work for work in works if isinstance(work, b.ClaimedWork)]
        outcomes = await asyncio.gather(*(backend.suspend_execution(suspend_args(work)) for work in held))
        waiting |= {work.execution_id: each.waitpoints[0] for work, each in zip(held, outcomes, strict=True)}
    assert len(waiting) == count
    return waiting


def used_memory(server: TestServer) -> int:
    return int(server.call("INFO", "memory").split(b"used_memory:")[1].split(b"\r")[0])


def connections(server: TestServer) -> int:
    """But for the one that asks."""
    return len(server.call("CLIENT", "LIST").splitlines()) - 1


def leases(server: TestServer) -> int:
    """Entries in all lists of who holds a lease."""
    names = [name.decode() for name in server.call("KEYS", "ff:idx:*")]
    held = [name for name in names if name.endswith((":lease_expiry", ":leases", ":active"))]
    return sum(server.call("SCARD" if name.endswith(":leases") else "ZCARD", name) for name in held)


async def gather_crowd(server: TestServer) -> Crowd:
    async with opened(server) as backend:
        secret = c.SeedWaitpointHmacSecretArgs(kid=Kid("k1"), secret_hex=SecretHex("ab" * 32))
        await backend.seed_waitpoint_hmac_secret(secret)
        await backend.configure_lane(c.ConfigureLaneArgs(lane_id=LANE, max_concurrency=SLOTS))
        early = await suspend_many(backend, WARM_UP)
    before = used_memory(server)
    async with opened(server) as backend:
        waiting = early | await suspend_many(backend, COUNT)
        (counted,) = await backend.count_executions(LANE)
    used = used_memory(server) - before
    return Crowd(server, waiting, used / COUNT, connections(server), dict(counted.counts), leases(server))


@pytest.fixture(scope="module")
def crowd() -> Iterator[Crowd]:
    with start_standalone() as server:
        yield asyncio.run(gather_crowd(server))


def test_they_hold_no_lease_no_slot_of_their_lane_and_no_connection(crowd: Crowd) -> None:
    assert crowd.counts == {PublicState.SUSPENDED: WARM_UP + COUNT}
    assert (crowd.leases, crowd.connections) == (0, 0)


def test_each_takes_less_memory_than_it_may(crowd: Crowd, capsys: pytest.CaptureFixture[str]) -> None:
    tell(capsys, f"{crowd.bytes_each:,.0f} bytes for each of {COUNT:,} suspended executions")
    assert 0 < crowd.bytes_each < MOST_BYTES


async def test_as_many_signals_resume_each_of_them_once(crowd: Crowd) -> None:
    """A worker claims while signals come; it gets each attempt that waited, with the signal it waited for."""
    async with opened(crowd.server) as signaller, opened(crowd.server) as worker:
        news: asyncio.Queue[bool] = asyncio.Queue()
        sending = asyncio.create_task(signal_all(signaller, crowd.waiting, news))
        resumed: list[ExecutionId] = []
        while await news.get():
            resumed += await claim_all(worker)
        assert Counter(resumed) == dict.fromkeys(crowd.waiting, 1)
        assert await sending == {c.ResumeTriggered: len(crowd.waiting)}
        (counted,) = await worker.count_executions(LANE)
        assert counted.counts == {PublicState.COMPLETED: len(crowd.waiting)}


async def signal_all(
    backend: ValkeyBackend, waiting: dict[ExecutionId, c.IssuedWaitpoint], news: asyncio.Queue[bool]
) -> Counter[Any]:
    """What became of the signals, by kind; there is news after some of them, and no more after all."""
    outcomes: Counter[Any] = Counter()
    calls = [signal_args(execution_id, at) for execution_id, at in waiting.items()]
    for start in range(0, len(calls), AT_ONCE):
        some = await asyncio.gather(*(backend.deliver_signal(args) for args in calls[start : start + AT_ONCE]))
        outcomes.update(type(each) for each in some)
        news.put_nowait(True)
    news.put_nowait(False)
    return outcomes


def signal_args(execution_id: ExecutionId, at: c.IssuedWaitpoint) -> c.DeliverSignalArgs:
    """Its payload says whom it is for."""
    return c.DeliverSignalArgs(
        execution_id=execution_id, waitpoint_id=at.waitpoint_id, waitpoint_token=at.waitpoint_token,
        signal_id=SignalId.new(), signal_name="approved", payload=execution_id.encode(), source_identity="ann",
    )  # fmt: skip


async def claim_all(backend: ValkeyBackend) -> list[ExecutionId]:
    """Claim and complete until nothing more comes."""
    resumed: list[ExecutionId] = []
    while works := [work for work in await backend.claim_executions(claim_args()) if isinstance(work, b.ClaimedWork)]:
        assert all(work.attempt_type is None for work in works)
        await asyncio.gather(*(check_signal(backend, work.execution_id) for work in works[:SAMPLE]))
        await finish(backend, works)
        resumed += [work.execution_id for work in works]
    return resumed


async def finish(backend: ValkeyBackend, works: list[b.ClaimedWork]) -> None:
    endings = tuple(c.CompleteExecutionArgs(execution_id=work.execution_id, fence=work.fence) for work in works)
    partition = Partition(PartitionFamily.FLOW, works[0].execution_id.partition_index)
    done = await backend.finish_executions(b.FinishExecutionsArgs(partition=partition, finish=endings))
    assert all(isinstance(each, c.ExecutionCompleted) for each in done.finished)


async def check_signal(backend: ValkeyBackend, execution_id: ExecutionId) -> None:
    page = await backend.list_resume_signals(c.ListResumeSignalsArgs(execution_id=execution_id))
    assert [each.payload for each in page.signals] == [execution_id.encode()]
