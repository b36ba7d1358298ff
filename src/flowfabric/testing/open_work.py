"""Open executions at the current time: those that can make progress, and those that have no worker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from flowfabric.backends.ports import EngineBackend
from flowfabric.client.flows.view import read_members
from flowfabric.core import contracts as c
from flowfabric.core.explain import explain
from flowfabric.core.ids import ExecutionId, FlowId
from flowfabric.core.rules.tasks import has_task, lacks
from flowfabric.core.states import AttemptState, EligibilityState, LaneState, PublicState
from flowfabric.errors import ExecutionNotFound
from flowfabric.worker import Worker

_SHOWN = 20
_NO_TASK = "was handed back: no worker here has its task; add it with @worker.task or worker.add"


class StillOpen(AssertionError):
    """Executions that cannot make progress, or have not ended in time. The message gives the reason for each."""

    def __init__(self, problem: str, found: Sequence[OpenExecution], workers: Sequence[c.WorkerInfo]) -> None:
        self.executions = tuple(each.summary for each in found)
        lines = [f"  {each.describe(workers)}" for each in found[:_SHOWN]]
        more = [f"  and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        super().__init__("\n".join([f"{problem}:", *lines, *more]))


class OpenExecution(NamedTuple):
    """An execution that runs, or waits only for a worker."""

    summary: c.ExecutionSummary
    facts: c.Explanation
    goes_on: bool  # a worker runs it, or will claim it
    why: str | None = None  # the reason, if the store cannot know it

    def describe(self, workers: Sequence[c.WorkerInfo]) -> str:
        why = self.why or explain(self.facts, workers)
        return f"{self.summary.execution_kind} {self.summary.execution_id.short} {why}"


@dataclass(frozen=True)
class Staff:
    """The workers of a test."""

    alive: Collection[Worker]
    killed: Collection[Worker] = ()  # by the test in this run: executions may wait for them

    def holds(self, facts: c.Explanation) -> bool:
        return any(worker.settings.worker_instance_id == facts.worker_instance_id for worker in self.alive)

    def knows(self, task: str) -> bool:
        return any(task in worker.tasks for worker in (*self.alive, *self.killed))


async def open_work(backend: EngineBackend, staff: Staff, *, handed_back: bool) -> AsyncIterator[OpenExecution]:
    """Executions that run or wait for a worker; with `handed_back` also those whose task no worker has.

    Not included: executions that wait for a time (such as the lease of a dead worker), a signal or an operator.
    """
    async for each, facts in _explained(backend, PublicState.WAITING):
        if _may_start(facts) and not _able(facts, staff.killed):
            yield OpenExecution(each, facts, _able(facts, staff.alive))
    async for each, facts in _explained(backend, PublicState.ACTIVE):
        if staff.holds(facts):
            yield OpenExecution(each, facts, goes_on=True)
    if handed_back:
        async for each, facts in _explained(backend, PublicState.DELAYED):
            if not staff.knows(each.execution_kind):
                yield OpenExecution(each, facts, goes_on=False, why=_NO_TASK)


async def executions_in(backend: EngineBackend, state: PublicState) -> AsyncIterator[c.ExecutionSummary]:
    """All executions in a state, oldest first."""
    args = c.ListExecutionsArgs(public_state=state, order=c.ListOrder.OLDEST)
    while True:
        page = await backend.list_executions(args)
        for each in page.executions:
            yield each
        if page.next_cursor is None:
            return
        args = replace(args, cursor=page.next_cursor)


async def suspended_in(backend: EngineBackend) -> AsyncIterator[c.SuspendedExecutionEntry]:
    """All suspended executions, the earliest timeout first."""
    args = c.ListSuspendedArgs()
    while True:
        page = await backend.list_suspended(args)
        for each in page.entries:
            yield each
        if page.next_cursor is None:
            return
        args = replace(args, cursor=page.next_cursor)


async def still_open(backend: EngineBackend, subject: ExecutionId | FlowId) -> list[OpenExecution]:
    """The execution, or the members of the flow that have not ended."""
    if isinstance(subject, ExecutionId):
        return [await _open(backend, subject)]
    members = await read_members(backend, subject)
    return [await _open(backend, each.execution_id) for each in members if each.completed_at is None]


async def _open(backend: EngineBackend, execution_id: ExecutionId) -> OpenExecution:
    facts = await backend.explain_execution(execution_id)
    info = await backend.get_execution(execution_id)
    assert info is not None, "explained a moment ago"
    summary = c.ExecutionSummary(**{name: getattr(info, name) for name in c.ExecutionSummary.__struct_fields__})
    return OpenExecution(summary, facts, goes_on=False)


async def _explained(
    backend: EngineBackend, state: PublicState
) -> AsyncIterator[tuple[c.ExecutionSummary, c.Explanation]]:
    async for each in executions_in(backend, state):
        with suppress(ExecutionNotFound):
            yield each, await backend.explain_execution(each.execution_id)


def _may_start(facts: c.Explanation) -> bool:
    """Whether it waits only for a worker."""
    if facts.state_vector.eligibility_state is not EligibilityState.ELIGIBLE_NOW or facts.granted_to is not None:
        return False
    was_started = facts.state_vector.attempt_state is AttemptState.ATTEMPT_INTERRUPTED
    lane_is_open = facts.lane_state is LaneState.ACTIVE or (facts.lane_state is LaneState.DRAINING and was_started)
    return (
        lane_is_open
        and _has_room(facts.lane_running, facts.lane_limit)
        and _has_room(facts.key_running, facts.key_limit)
    )


def _has_room(running: int, limit: int | None) -> bool:
    return limit is None or running < limit


def _able(facts: c.Explanation, workers: Collection[Worker]) -> bool:
    return any(
        facts.lane_id in worker.settings.lanes
        and not lacks(facts.required_capabilities, worker.settings.capabilities, worker.tasks)
        and has_task(worker.tasks, facts.execution_kind)
        for worker in workers
    )
