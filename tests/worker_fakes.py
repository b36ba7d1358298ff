"""A store that answers a worker as it is told, for unit tests: nothing runs, nothing waits."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

from flowfabric.backends.ports import EngineBackend
from flowfabric.client.tasks.task import Task
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import AttemptId, ExecutionId, LaneId, LeaseId, Namespace, WorkerInstanceId
from flowfabric.core.lease_handle import BackendTag, HandleWriter
from flowfabric.core.partition import Partition, PartitionConfig, PartitionFamily, lane_partitions
from flowfabric.core.states import AttemptType, PublicState
from flowfabric.errors import FlowFabricError
from flowfabric.worker import Worker
from flowfabric.worker.attempts.attempt import Attempt
from flowfabric.worker.attempts.pool import AttemptPool
from flowfabric.worker.loop.claim_loop import ClaimLoop
from flowfabric.worker.loop.claim_planner import ClaimPlanner
from flowfabric.worker.loop.parked_claims import Parking
from flowfabric.worker.loop.turns import Turns
from flowfabric.worker.loop.wiring import Parts
from flowfabric.worker.reporting.outbox import Ending, Outbox
from flowfabric.worker.reporting.requests import completion
from flowfabric.worker.settings import WorkerSettings, make_settings
from flowfabric.worker.stats import WorkerStats

LANE = LaneId("default")
HERE = Partition(PartitionFamily.FLOW, 7)
TTL_MS = 30_000
INSTANCE = WorkerInstanceId("worker-1")
_TURNS = 20


async def settle() -> None:
    """Let everything happen that can happen without time."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


def settings(**changes: Any) -> WorkerSettings:
    given: dict[str, Any] = {
        "lanes": ["default"], "capabilities": (), "concurrency": 4, "prefetch": 0, "lease_ttl_ms": TTL_MS,
        "namespace": "tests", "worker_id": "worker", "worker_instance_id": "worker-1", "grace": 30, "cancel_grace": 5,
        "blocking_threshold": 0.5, "processes": 1, "version": "", **changes,
    }  # fmt: skip
    return make_settings(**given)


def claimed_work(kind: str = "noop", partition: Partition = HERE, payload: bytes = b"") -> b.ClaimedWork:
    return b.ClaimedWork(
        execution_id=ExecutionId(f"{partition.tag}:{uuid.uuid4()}"),
        fence=c.LeaseFence(lease_id=LeaseId.new(), lease_epoch=1, attempt_id=AttemptId.new()),
        attempt_index=0,
        attempt_type=AttemptType.INITIAL,
        lease_expires_at=1_700_000_000_000 + TTL_MS,
        handles=HandleWriter(BackendTag.VALKEY, lease_ttl_ms=TTL_MS, lane_id=LANE, worker_instance_id=INSTANCE),
        execution_kind=kind,
        input_payload=payload,
    )


Answer = Callable[[b.FinishExecutionsArgs], b.FinishExecutionsResult | Exception]


def accepted(args: b.FinishExecutionsArgs, works: Sequence[b.ClaimedWork] = ()) -> b.FinishExecutionsResult:
    """Every end taken, every lease renewed, and so much claimed."""
    return b.FinishExecutionsResult(
        finished=[
            c.ExecutionCompleted(execution_id=item.execution_id, public_state=PublicState.COMPLETED)
            if isinstance(item, c.CompleteExecutionArgs)
            else c.TerminalFailed()
            for item in args.finish
        ],
        renewed=[c.LeaseRenewed(expires_at=0) for _ in args.renew],
        claimed=list(works),
    )


class FakeBatches:
    """finish_executions; each call waits until the test lets it be answered."""

    def __init__(self, answer: Answer = accepted) -> None:
        self.calls: list[b.FinishExecutionsArgs] = []
        self.answer = answer
        self.waiting: list[asyncio.Future[None]] = []
        self.holding = False

    async def finish_executions(self, args: b.FinishExecutionsArgs) -> b.FinishExecutionsResult:
        self.calls.append(args)
        if self.holding:
            gate = asyncio.get_running_loop().create_future()
            self.waiting.append(gate)
            await gate
        answer = self.answer(args)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def let_one_go(self) -> None:
        self.waiting.pop(0).set_result(None)
        await settle()


class Floor:
    """A claim loop whose work nobody runs: the test ends it."""

    def __init__(self, port: FakeBatches, *, retry_pause_ms: int = 1_000, **changes: Any) -> None:
        chosen = replace(settings(**changes), retry_pause_ms=retry_pause_ms)
        self.answers: list[b.FinishOutcome] = []
        self.turns, self.pool, self.parking = Turns(), AttemptPool(chosen), Parking(chosen.concurrency)
        self.outbox = Outbox(self.turns)
        self.planner = ClaimPlanner(chosen, self.pool, self.parking, self.turns)
        self.loop = ClaimLoop(
            port,  # type: ignore[arg-type]
            self.pool,
            self.outbox,
            self.planner,
            self.parking,
            chosen,
            WorkerStats(),
            self.turns,
            on_claimed=self._claimed,
            on_finished=self._finished,
        )

    @property
    def running(self) -> list[Attempt]:
        return list(self.pool.backlog)

    def run(self, *works: b.ClaimedWork) -> None:
        """Take slots, as claimed work does."""
        self.pool.backlog.extend(Attempt(work, None, LANE, 0.0, 0.0) for work in works)  # type: ignore[arg-type]

    def _claimed(self, works: Sequence[b.ClaimedWork], lane_id: LaneId, sent_at: float) -> None:
        self.run(*works)

    def _finished(self, endings: Sequence[Ending], results: Sequence[b.FinishOutcome]) -> None:
        self.answers += results

    def hear(self, *partitions: Partition) -> None:
        self.planner.hear([(LANE, partition) for partition in partitions or (HERE,)])
        self.turns.soon()

    def end(self, count: int = 1, payload: bytes = b"null") -> None:
        for _ in range(count):
            attempt = self.pool.backlog.popleft()
            self.outbox.add(attempt, completion(attempt.execution_id, attempt.fence, payload))


class FakeListener:
    """Announces what the test says."""

    def __init__(self) -> None:
        self.news: asyncio.Queue[frozenset[tuple[LaneId, Partition]]] = asyncio.Queue()
        self.news.put_nowait(frozenset())

    async def wait(self) -> frozenset[tuple[LaneId, Partition]]:
        return await self.news.get()


class FakeStore(FakeBatches):
    """As much of a backend as a worker uses. Work is given with `give`; what the worker said is in the lists."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.queue: list[b.ClaimedWork] = []
        self.partitions = PartitionConfig()
        self.listener = FakeListener()
        self.finished: list[b.FinishArgs] = []
        self.delayed: list[c.DelayExecutionArgs] = []
        self.cancelled: list[c.CancelExecutionArgs] = []
        self.progress: list[c.UpdateProgressArgs] = []
        self.renewed: list[c.RenewLeaseArgs] = []
        self.presence: list[str] = []
        self.renewal_outcome: b.RenewOutcome = c.LeaseRenewed(expires_at=0)
        self.refusal: FlowFabricError | None = None  # of the next ends
        self.heartbeat: c.HeartbeatWorkerResult = c.HeartbeatAccepted(next_expiry_ms=0)
        self.closed = False
        self.logged: list[c.AppendLogsArgs] = []

    def give(self, task: Task[..., Any] | str, *args: Any, **kwargs: Any) -> ExecutionId:
        """Make work and announce it."""
        name = task if isinstance(task, str) else task.name
        payload = b"" if isinstance(task, str) else task.encode_arguments(*args, **kwargs)
        (home,) = lane_partitions(LANE, self.partitions)
        work = claimed_work(name, home, payload)
        self.queue.append(work)
        self.listener.news.put_nowait(frozenset({(LANE, home)}))
        return work.execution_id

    def _answer(self, args: b.FinishExecutionsArgs) -> b.FinishExecutionsResult:
        self.finished += args.finish
        self.renewed += args.renew
        count = args.claim.count if args.claim and args.claim.lane_id == LANE else 0
        works = [work for work in self.queue if work.execution_id.tag == args.partition.tag][:count]
        self.queue = [work for work in self.queue if work not in works]
        result = accepted(args, works)
        refused: list[b.FinishOutcome] = [self.refusal for _ in args.finish if self.refusal]
        self.refusal = None if refused else self.refusal
        return b.FinishExecutionsResult(
            finished=refused or result.finished,
            renewed=[self.renewal_outcome for _ in args.renew],
            claimed=works,
        )

    @asynccontextmanager
    async def listen_for_work(self, lanes: Any, capabilities: Any = (), **_: Any) -> AsyncIterator[FakeListener]:
        yield self.listener

    async def kept_secret(self) -> None:
        return None

    async def partitions_in_use(self) -> list[Partition]:
        return []

    async def delay_execution(self, args: c.DelayExecutionArgs) -> c.DelayExecutionResult:
        self.delayed.append(args)
        return c.ExecutionDelayed(execution_id=args.execution_id, public_state=PublicState.DELAYED)

    async def append_logs(self, args: c.AppendLogsArgs) -> c.AppendLogsResult:
        self.logged.append(args)
        return c.LogsAppended(appended=len(args.entries))

    async def cancel_execution(self, args: c.CancelExecutionArgs) -> c.CancelExecutionResult:
        self.cancelled.append(args)
        return c.ExecutionCancelled(execution_id=args.execution_id, public_state=PublicState.CANCELLED)

    async def update_progress(self, args: c.UpdateProgressArgs) -> c.UpdateProgressResult:
        self.progress.append(args)
        await asyncio.sleep(0)
        return c.ProgressUpdated()

    async def register_worker(self, args: c.RegisterWorkerArgs) -> c.RegisterWorkerResult:
        self.presence.append("registered")
        return c.WorkerRegistered()

    async def heartbeat_worker(self, args: c.HeartbeatWorkerArgs) -> c.HeartbeatWorkerResult:
        self.presence.append("alive")
        return self.heartbeat

    async def mark_worker_dead(self, args: c.MarkWorkerDeadArgs) -> c.MarkWorkerDeadResult:
        self.presence.append(f"dead: {args.reason}")
        return c.WorkerMarkedDead()

    async def describe_execution(self, execution_id: ExecutionId) -> c.ExecutionSnapshot | None:
        return c.ExecutionSnapshot(
            execution_id=execution_id,
            lane_id=LANE,
            namespace=Namespace("tests"),
            public_state=PublicState.ACTIVE,
            created_at=0,
            last_mutation_at=0,
            total_attempt_count=1,
            tags={"team.a": "b"},
        )

    async def close(self) -> None:
        self.closed = True

    @property
    def port(self) -> EngineBackend:
        return cast("EngineBackend", self)


def parts_of(worker: Worker) -> Parts:
    """The parts of a worker that runs."""
    assert worker._run is not None
    return worker._run.parts


async def worked(
    worker: Worker, store: FakeStore, task: Task[..., Any] | str, *args: Any, **kwargs: Any
) -> ExecutionId:
    """Have a worker do this one thing, and everything that follows from it."""
    execution_id = store.give(task, *args, **kwargs)
    async with worker.working(store.port):
        await worker.idle()
    return execution_id
