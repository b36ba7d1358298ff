"""The open questions of an execution as forms, and their answers: for the dashboard and other pages of people."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from flowfabric.backends.http.operations import PREFIX, Scope
from flowfabric.backends.ports import EngineBackend
from flowfabric.client.signals import to_execution
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.forms import WaitForm
from flowfabric.core.ids import ExecutionId, WaitpointId
from flowfabric.core.states import PublicState
from flowfabric.errors import ExecutionNotFound, FlowFabricError
from flowfabric.server.http.bounds import read_json
from flowfabric.server.http.decoding import body_of
from flowfabric.server.pages.fields import Answers, BadAnswer, Fields
from flowfabric.server.service import Service, answer

_ENDED: Final = frozenset(
    {PublicState.COMPLETED, PublicState.FAILED, PublicState.CANCELLED, PublicState.EXPIRED, PublicState.SKIPPED}
)
Given: TypeAlias = Annotated[dict[str, str], msgspec.Meta(max_length=limits.REQUEST_MAX_ITEMS)]


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """An open waitpoint, without its token, and the form of its answer.

    A waitpoint that its handler does not wait at yet has no question, and its form takes any payload.
    """

    waitpoint: c.PendingWaitpointInfo
    question: str = ""
    form: Fields = Fields(is_open=True)


class Questions(msgspec.Struct, frozen=True, kw_only=True):
    """The open questions of one execution."""

    execution_id: ExecutionId
    questions: tuple[OpenQuestion, ...] = ()


class FilledIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A form as it was filled in: text by the keys of its fields; a decision has the key `choice` besides them."""

    signal_name: str
    given: Given = {}
    idempotency_key: str | None = None


async def open_questions(backend: EngineBackend, execution_id: ExecutionId, limit: int) -> tuple[OpenQuestion, ...]:
    args = c.ListPendingWaitpointsArgs(execution_id=execution_id, limit=limit)
    page = await backend.list_pending_waitpoints(args)
    return tuple(_question(each, page.form) for each in page.entries)


def _question(waitpoint: c.PendingWaitpointInfo, form: WaitForm | None) -> OpenQuestion:
    if waitpoint.state is not c.WaitpointState.ACTIVE:
        form = None
    question = form.question if form else ""
    return OpenQuestion(waitpoint=waitpoint, question=question, form=Answers(form).form)


async def questions(request: Request) -> Response:
    """The open questions of an execution, each with the form of its answer."""
    service = Service.of(request)
    token = service.caller(request, Scope.READ)
    execution_id = ExecutionId(request.path_params["execution_id"])
    found = await open_questions(service.store(token), execution_id, limits.SCAN_LIMIT_MAX)
    return answer(Questions(execution_id=execution_id, questions=found))


async def answer_question(request: Request) -> Response:
    """Deliver the answer of a form that was filled in."""
    service = Service.of(request)
    token = service.caller(request, Scope.SIGNAL)
    store = service.store(token)
    execution_id = ExecutionId(request.path_params["execution_id"])
    waitpoint_id = WaitpointId(request.path_params["waitpoint_id"])
    filled = read_json(FilledIn, await body_of(request, service.settings, takes_payloads=True))
    waitpoint, payload = await _read(store, execution_id, waitpoint_id, filled)
    args = to_execution(
        execution_id,
        filled.signal_name,
        payload,
        waitpoint=waitpoint.waitpoint_key,
        source=token.name,
        idempotency_key=filled.idempotency_key,
        source_type="dashboard",
    )
    return answer(await store.signal_execution(args))


async def _read(
    store: EngineBackend, execution_id: ExecutionId, waitpoint_id: WaitpointId, filled: FilledIn
) -> tuple[c.PendingWaitpointInfo, Any]:
    """The open waitpoint, and the payload that the form means there."""
    args = c.ListPendingWaitpointsArgs(execution_id=execution_id, limit=limits.SCAN_LIMIT_MAX)
    page = await store.list_pending_waitpoints(args)
    found = next((each for each in page.entries if each.waitpoint_id == waitpoint_id), None)
    if found is None:
        raise await _closed(store, execution_id)
    form = page.form if found.state is c.WaitpointState.ACTIVE else None
    try:
        return found, Answers(form).read(filled.given)
    except BadAnswer as problem:
        raise FlowFabricError(str(problem), code="invalid_answer") from None


async def _closed(store: EngineBackend, execution_id: ExecutionId) -> FlowFabricError:
    """Why no handler waits for the answer any longer."""
    state = await store.get_execution_state(execution_id)
    if state is None:
        return ExecutionNotFound(f"{execution_id}: no such execution", execution_id=str(execution_id))
    if state in _ENDED:
        return FlowFabricError(f"the execution has ended: {state}", code="target_not_signalable", state=state)
    return FlowFabricError("the question was answered, or its time is up", code="waitpoint_closed")


ROUTES: Final = [
    Route(f"{PREFIX}/executions/{{execution_id}}/questions", questions),
    Route(
        f"{PREFIX}/executions/{{execution_id}}/waitpoints/{{waitpoint_id}}/answer", answer_question, methods=["POST"]
    ),
]
