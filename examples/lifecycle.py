"""One execution's whole life, told on an embedded Valkey: `python examples/lifecycle.py`.

A completed execution, one that fails and is retried, one whose worker dies and is replaced, one that an operator
cancels and replays. Every line of the log is the state that the store answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rich.box import HEAVY_HEAD
from rich.console import Console
from rich.table import Table

from flowfabric import EngineBackend, open_backend
from flowfabric.core import contracts as c
from flowfabric.core.ids import AttemptId, ExecutionId, LaneId, LeaseId, Namespace, WorkerId, WorkerInstanceId
from flowfabric.core.policy import ExecutionPolicy, FixedBackoff, RetryPolicy
from flowfabric.core.states import PublicState

LANE = LaneId("agents")
RETRY_TWICE = ExecutionPolicy(retry_policy=RetryPolicy(max_retries=2, backoff=FixedBackoff(delay_ms=50)))
COLOURS = {
    PublicState.COMPLETED: "green",
    PublicState.FAILED: "red",
    PublicState.CANCELLED: "yellow",
    PublicState.ACTIVE: "cyan",
    PublicState.DELAYED: "magenta",
}

console = Console(highlight=False)
BOX = HEAVY_HEAD if console.is_terminal else None  # plain where nobody looks at it


class Story:
    """A store, a worker, and the names we gave to executions."""

    def __init__(self, backend: EngineBackend) -> None:
        self.backend = backend
        self.names: dict[ExecutionId, str] = {}

    async def submit(self, name: str, payload: bytes, policy: ExecutionPolicy | None = None) -> ExecutionId:
        execution_id = ExecutionId.for_lane(LANE, self.backend.partitions)
        self.names[execution_id] = name
        await self.backend.create_execution(
            c.CreateExecutionArgs(
                execution_id=execution_id,
                namespace=Namespace("demo"),
                lane_id=LANE,
                execution_kind=name,
                input_payload=payload,
                policy=policy,
            )
        )
        await self.tell(execution_id, "created")
        return execution_id

    async def claim(self, execution_id: ExecutionId, worker: str, ttl_ms: int = 30_000) -> c.LeaseFence:
        claimed = await self.backend.issue_grant_and_claim(
            c.IssueGrantAndClaimArgs(
                execution_id=execution_id,
                worker_id=WorkerId("demo"),
                worker_instance_id=WorkerInstanceId(worker),
                lane_id=LANE,
                lease_id=LeaseId.new(),
                lease_ttl_ms=ttl_ms,
                attempt_id=AttemptId.new(),
            )
        )
        await self.tell(execution_id, f"claimed by {worker}, attempt {claimed.attempt_index}")
        return claimed.fence

    async def take_over(self, execution_id: ExecutionId, worker: str) -> c.ReclaimExecutionResult:
        """What a worker does with an execution whose lease was lost: get a grant, then reclaim."""
        await self.backend.issue_reclaim_grant(
            c.IssueReclaimGrantArgs(
                execution_id=execution_id,
                worker_id=WorkerId("demo"),
                worker_instance_id=WorkerInstanceId(worker),
                lane_id=LANE,
                grant_ttl_ms=5_000,
            )
        )
        return await self.backend.reclaim_execution(
            c.ReclaimExecutionArgs(
                execution_id=execution_id,
                worker_id=WorkerId("demo"),
                worker_instance_id=WorkerInstanceId(worker),
                lane_id=LANE,
                lease_id=LeaseId.new(),
                lease_ttl_ms=30_000,
                attempt_id=AttemptId.new(),
            )
        )

    async def complete(self, execution_id: ExecutionId, fence: c.LeaseFence, result: bytes) -> None:
        args = c.CompleteExecutionArgs(execution_id=execution_id, fence=fence, result_payload=result)
        await self.backend.complete_execution(args)
        await self.tell(execution_id, f"completed with {result.decode()!r}")

    async def fail(self, execution_id: ExecutionId, fence: c.LeaseFence, reason: str) -> None:
        args = c.FailExecutionArgs(
            execution_id=execution_id, fence=fence, failure_reason=reason, failure_category="transient"
        )
        outcome = await self.backend.fail_execution(args)
        said = "a retry is scheduled" if isinstance(outcome, c.RetryScheduled) else "no retry is left"
        await self.tell(execution_id, f"failed ({reason}): {said}")

    async def until(self, step: Callable[[], Awaitable[object]], done: type) -> None:
        """Ask until the answer is of this kind; in production the engine asks when the time has come."""
        while not isinstance(await step(), done):  # noqa: ASYNC110 - the store's clock decides, nothing tells us
            await asyncio.sleep(0.01)

    async def tell(self, execution_id: ExecutionId, what: str) -> None:
        state = await self.backend.get_execution_state(execution_id)
        assert state is not None
        colour = COLOURS.get(state, "white")
        console.print(f"  {self.names[execution_id]:<10} [{colour}]{state:<10}[/] {what}")


async def plain(story: Story) -> None:
    execution_id = await story.submit("greet", b"tides")
    fence = await story.claim(execution_id, "worker-1")
    await story.complete(execution_id, fence, b"hello tides")


async def retried(story: Story) -> None:
    execution_id = await story.submit("flaky", b"model", RETRY_TWICE)
    fence = await story.claim(execution_id, "worker-1")
    await story.fail(execution_id, fence, "rate limited")
    promote = c.PromoteDelayedArgs(execution_id=execution_id)
    await story.until(lambda: story.backend.promote_delayed(promote), c.DelayedPromoted)
    await story.tell(execution_id, "the backoff is over")
    fence = await story.claim(execution_id, "worker-2")
    await story.complete(execution_id, fence, b"second try")


async def reclaimed(story: Story) -> None:
    execution_id = await story.submit("crash", b"long job")
    lost = await story.claim(execution_id, "worker-1", ttl_ms=50)
    mark = c.MarkLeaseExpiredArgs(execution_id=execution_id)
    await story.until(lambda: story.backend.mark_lease_expired_if_due(mark), c.LeaseMarkedExpired)
    await story.tell(execution_id, "worker-1 died, its lease ran out")
    taken = await story.take_over(execution_id, "worker-2")
    assert isinstance(taken, c.ReclaimedExecution)
    await story.tell(execution_id, "reclaimed by worker-2, attempt 1")
    try:
        await story.complete(execution_id, lost, b"from the grave")
    except Exception as error:
        await story.tell(execution_id, f"worker-1 comes back and is refused: {type(error).__name__}")
    await story.complete(execution_id, taken.fence, b"done by worker-2")


async def cancelled(story: Story) -> None:
    execution_id = await story.submit("report", b"q3")
    cancel = c.CancelExecutionArgs(
        execution_id=execution_id, reason="wrong quarter", source=c.CancelSource.OPERATOR_OVERRIDE
    )
    await story.backend.cancel_execution(cancel)
    await story.tell(execution_id, "cancelled by an operator")
    await story.backend.replay_execution(c.ReplayExecutionArgs(execution_id=execution_id))
    await story.tell(execution_id, "replayed")
    fence = await story.claim(execution_id, "worker-1")
    await story.complete(execution_id, fence, b"q4 report")


async def summary(story: Story) -> Table:
    table = Table("execution", "state", "attempts", "result", box=BOX)
    for execution_id, name in story.names.items():
        info = await story.backend.get_execution(execution_id)
        assert info is not None
        attempts = await story.backend.list_attempts(execution_id)
        result = await story.backend.get_execution_result(execution_id)
        said = ", ".join(f"{attempt.attempt_type} {attempt.state.removeprefix('ended_')}" for attempt in attempts)
        state = f"[{COLOURS.get(info.public_state, 'white')}]{info.public_state}[/]"
        table.add_row(name, state, said, result.payload.decode() if result else "")
    return table


async def event_log(story: Story) -> Table:
    """What the store wrote down itself, one line for each transition."""
    table = Table("after ms", "execution", "event", "attempt", "epoch", "outcome", title="The event log", box=BOX)
    lines = [(line, name) for each, name in story.names.items() for line in (await story.backend.history(each)).events]
    lines.sort(key=lambda each: each[0].at_ms)
    for line, name in lines:
        attempt = "" if line.attempt_index is None else str(line.attempt_index)
        after = str(line.at_ms - lines[0][0].at_ms)
        table.add_row(after, name, line.event, attempt, str(line.lease_epoch), line.outcome or "")
    return table


async def main() -> None:
    console.print("Starting an embedded Valkey ...")
    backend = await open_backend("embedded://")
    story = Story(backend)
    try:
        chapters = {
            "An execution is created, claimed and completed": plain,
            "One fails and is retried": retried,
            "A worker dies; another one takes over, and the first is fenced off": reclaimed,
            "An operator cancels one, and replays it": cancelled,
        }
        for title, chapter in chapters.items():
            console.print(f"\n[bold]{title}[/]")
            await chapter(story)
        console.print()
        console.print(await summary(story))
        console.print(await event_log(story))
    finally:
        await backend.close()


if __name__ == "__main__":
    asyncio.run(main())
