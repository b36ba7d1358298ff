"""Views for people, combined from several ports: why an execution does not run, and whose answer it waits for."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from flowfabric.backends.http.operations import PREFIX, Scope
from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.codec import from_plain
from flowfabric.core.contracts.events import Cursor
from flowfabric.core.contracts.fields import Checked
from flowfabric.core.explain import explain
from flowfabric.core.ids import ExecutionId, LaneId, Namespace
from flowfabric.core.states import PublicState
from flowfabric.errors import ExecutionNotFound
from flowfabric.server.access.scopes import check_store
from flowfabric.server.routes.questions import OpenQuestion, open_questions
from flowfabric.server.service import Service, answer

_WORKERS: Final = 1_000
_WAITPOINTS: Final = 20

InboxLimit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=100)]


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence that explains why the execution waits and what would change that."""

    execution_id: ExecutionId
    public_state: PublicState
    sentence: str


class WhyQuery(msgspec.Struct, frozen=True, kw_only=True):
    execution_id: ExecutionId


class InboxQuery(Checked, frozen=True, kw_only=True):
    """Filters of the inbox, like those of suspended executions, with smaller pages: each entry takes two more reads."""

    lane_id: LaneId | None = None
    reason_code: c.SuspensionReasonCode | None = None
    cursor: Cursor | None = None
    limit: InboxLimit = 50

    def args(self) -> c.ListSuspendedArgs:
        return c.ListSuspendedArgs(
            lane_id=self.lane_id, reason_code=self.reason_code, cursor=self.cursor, limit=self.limit
        )


class InboxEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A suspended execution and its open waitpoints with their forms, without their tokens."""

    execution: c.SuspendedExecutionEntry
    execution_kind: str
    namespace: Namespace
    questions: tuple[OpenQuestion, ...]


class InboxPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of entries, the earliest timeout first, and the cursor of the next page."""

    entries: tuple[InboxEntry, ...] = ()
    next_cursor: str | None = None


async def why(request: Request) -> Response:
    """Why an execution does or does not run, for people."""
    service = Service.of(request)
    token = service.caller(request, Scope.READ)
    execution_id = ExecutionId(request.path_params["execution_id"])
    facts, page = await asyncio.gather(
        service.store(token).explain_execution(execution_id),
        service.backend.list_workers(c.ListWorkersArgs(limit=_WORKERS)),
    )
    sentence = explain(facts, page.workers)
    return answer(Why(execution_id=execution_id, public_state=facts.public_state, sentence=sentence))


async def inbox(request: Request) -> Response:
    """Executions that wait for a person or a system, in all lanes."""
    service = Service.of(request)
    check_store(service.caller(request, Scope.READ))
    query = from_plain(InboxQuery, dict(request.query_params), texts=True)
    page = await service.backend.list_suspended(query.args())
    entries = await asyncio.gather(*(_entry(service.backend, each) for each in page.entries))
    return answer(InboxPage(entries=tuple(each for each in entries if each), next_cursor=page.next_cursor))


async def _entry(backend: EngineBackend, execution: c.SuspendedExecutionEntry) -> InboxEntry | None:
    """None: it was resumed or deleted since it was listed."""
    try:
        info, questions = await asyncio.gather(
            backend.get_execution(execution.execution_id),
            open_questions(backend, execution.execution_id, _WAITPOINTS),
        )
    except ExecutionNotFound:
        return None
    if info is None or info.public_state is not PublicState.SUSPENDED:
        return None
    return InboxEntry(
        execution=execution,
        execution_kind=info.execution_kind,
        namespace=info.namespace,
        questions=questions,
    )


ROUTES: Final = [
    Route(f"{PREFIX}/executions/{{execution_id}}/why", why),
    Route(f"{PREFIX}/inbox", inbox),
]
