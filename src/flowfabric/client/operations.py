"""Operations without a task: lists, counts, events, signals, lanes, workers and retention, with Python times."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from flowfabric import tracing
from flowfabric.backends.ports import EngineBackend
from flowfabric.client.signals import by_link
from flowfabric.client.tasks.options import Duration, moment_ms, ms
from flowfabric.client.tasks.task import Task
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId, Namespace
from flowfabric.core.links import SignalLink
from flowfabric.core.states import LaneState, PublicState

AnyTask: TypeAlias = Task[..., Any] | str
AllCounts: TypeAlias = list[c.LaneCounts]  # defined here, because inside the class `list` is a method


class Operations:
    """Inspect and control a store; `None` in a filter means any."""

    def __init__(self, backend: EngineBackend) -> None:
        self.backend = backend

    async def counts(self, lane: str | None = None) -> AllCounts:
        """The number of executions in each state, by lane or for one lane, and how long the oldest has waited."""
        return await self.backend.count_executions(_lane(lane))

    async def events(
        self,
        *,
        task: AnyTask | None = None,
        lane: str | None = None,
        namespace: str | None = None,
        kinds: Collection[str] = (),
        cursor: str | None = None,
        limit: int = 100,
    ) -> c.EventPage:
        """Events, oldest first, from `cursor` on; `cursor="end"` starts with the next event."""
        return await self.backend.read_events(
            c.ReadEventsArgs(
                execution_kind=_kind(task),
                lane_id=_lane(lane),
                namespace=_namespace(namespace),
                events=tuple(kinds),  # type: ignore[arg-type]  # checked there
                cursor=cursor,
                limit=limit,
            )
        )

    async def signal(
        self,
        link: SignalLink | str,
        payload: object = None,
        *,
        name: str | None = None,
        source: str = "",
        idempotency_key: str | None = None,
    ) -> c.SignalOutcome:
        """Send a signal to the waitpoint of a link, which contains the token. The payload is sent as JSON.

        `name` overrides the signal name in the link; `source` is the sender. InvalidAnswer: the payload does not fit
        the type of the wait.
        """
        if not isinstance(link, SignalLink):
            link = SignalLink.parse(link)
        with tracing.span("signal", name or link.signal_name or "", "PRODUCER", execution_id=link.execution_id):
            args = by_link(link, payload, name=name, source=source, idempotency_key=idempotency_key)
            return await self.backend.deliver_signal(args)

    async def suspended(
        self,
        *,
        lane: str | None = None,
        reason: c.SuspensionReasonCode | str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> c.ListSuspendedPage:
        """Suspended executions, the earliest timeout first; continue with `next_cursor`."""
        return await self.backend.list_suspended(
            c.ListSuspendedArgs(
                lane_id=_lane(lane),
                reason_code=reason,  # type: ignore[arg-type]  # checked there
                cursor=cursor,
                limit=limit,
            )
        )

    async def workers(
        self, *, namespace: str | None = None, cursor: str | None = None, limit: int = 100
    ) -> c.ListWorkersPage:
        """The live workers."""
        args = c.ListWorkersArgs(namespace=_namespace(namespace), cursor=cursor, limit=limit)
        return await self.backend.list_workers(args)

    async def pause_lane(self, lane: str) -> None:
        """Start nothing in this lane until it is resumed; running executions continue."""
        await self._set_lane(lane, LaneState.PAUSED)

    async def drain_lane(self, lane: str) -> None:
        """Start no new executions in this lane; started ones run to their end."""
        await self._set_lane(lane, LaneState.DRAINING)

    async def resume_lane(self, lane: str) -> None:
        """Start executions of this lane again."""
        await self._set_lane(lane, LaneState.ACTIVE)

    async def configure_lane(
        self,
        lane: str,
        *,
        max_concurrency: int | None = None,
        key_concurrency: int | None = None,
        ageing: Duration | None = None,
        shared_queue: bool = False,
    ) -> None:
        """Set how many executions of a lane may run at once, and how many of one concurrency key (None: 1).

        `ageing` is how long a wait outweighs one step of priority. With `shared_queue`, work that needs capabilities
        is queued where schedulers of other programs look for it. A setting that is not given goes back to its default.
        """
        await self.backend.configure_lane(
            c.ConfigureLaneArgs(
                lane_id=LaneId(lane),
                max_concurrency=max_concurrency,
                key_concurrency=key_concurrency,
                ageing_ms_per_priority=None if ageing is None else ms("ageing", ageing, low=1),
                shared_queue=shared_queue,
            )
        )

    async def describe_lane(self, lane: str) -> c.LaneSettings:
        """The settings of a lane."""
        return await self.backend.describe_lane(LaneId(lane))

    async def lanes(self, *, cursor: str | None = None, limit: int = 100) -> c.ListLanesPage:
        """The lanes that have executions, by name."""
        return await self.backend.list_lanes(c.ListLanesArgs(cursor=_lane(cursor), limit=limit))

    async def explain(self, execution_id: str) -> c.Explanation:
        """The facts that decide whether an execution runs."""
        return await self.backend.explain_execution(ExecutionId(execution_id))

    async def flows(
        self,
        *,
        name: str | None = None,
        namespace: str | None = None,
        status: c.FlowStatus | str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> c.ListFlowsPage:
        """Flows that match all filters, newest first, a page at a time; continue with `next_cursor` until None."""
        return await self.backend.list_flows(
            c.ListFlowsArgs(
                flow_kind=name,
                namespace=_namespace(namespace),
                status=status,  # type: ignore[arg-type]  # checked there
                cursor=cursor,
                limit=limit,
            )
        )

    async def _set_lane(self, lane: str, state: LaneState) -> None:
        await self.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LaneId(lane), state=state))

    async def trim(
        self,
        *,
        older_than: Duration | None = None,
        keep_last: int | None = None,
        lane: str | None = None,
        limit: int = 1_000,
        cursor: str | None = None,
    ) -> c.TrimExecutionsResult:
        """Delete ended executions: those older than `older_than`, or all but the newest `keep_last` of each lane."""
        return await self.backend.trim_executions(
            c.TrimExecutionsArgs(
                older_than_ms=None if older_than is None else ms("older_than", older_than),
                keep_last=keep_last,
                lane_id=_lane(lane),
                limit=limit,
                cursor=cursor,
            )
        )

    async def list(
        self,
        *,
        task: AnyTask | None = None,
        lane: str | None = None,
        namespace: str | None = None,
        state: PublicState | str | None = None,
        tags: Mapping[str, str] | None = None,
        created_since: datetime | None = None,
        created_until: datetime | None = None,
        order: c.ListOrder | str = c.ListOrder.NEWEST,
        cursor: str | None = None,
        limit: int = 100,
    ) -> c.ListExecutionsPage:
        """Executions that match all filters, a page at a time; continue with `next_cursor` until it is None."""
        return await self.backend.list_executions(
            c.ListExecutionsArgs(
                execution_kind=_kind(task),
                lane_id=_lane(lane),
                namespace=_namespace(namespace),
                public_state=state,  # type: ignore[arg-type]  # checked there
                tags=dict(tags or {}),
                created_since_ms=None if created_since is None else moment_ms("created_since", created_since),
                created_until_ms=None if created_until is None else moment_ms("created_until", created_until),
                order=order,  # type: ignore[arg-type]  # checked there
                cursor=cursor,
                limit=limit,
            )
        )


def _kind(task: AnyTask | None) -> str | None:
    return task.name if isinstance(task, Task) else task


def _lane(lane: str | None) -> LaneId | None:
    return None if lane is None else LaneId(lane)


def _namespace(namespace: str | None) -> Namespace | None:
    return None if namespace is None else Namespace(namespace)
