"""Submit a task by name with JSON input; the server creates the id."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import replace
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from flowfabric.backends.http.operations import PREFIX, Scope
from flowfabric.client.tasks.task import Task
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.codec import from_plain
from flowfabric.errors import FlowFabricError, InvalidInput
from flowfabric.server.access.tokens import Token, check_namespace
from flowfabric.server.http.bounds import check_items, read_json
from flowfabric.server.http.decoding import body_of, once
from flowfabric.server.http.exact_route import ExactRoute
from flowfabric.server.http.headers import header
from flowfabric.server.service import Service, answer

_JSON: Final = "application/json"
_SLICE: Final = 100  # submissions of a bulk that are made at once
_USUAL_BYTES: Final = 1_024  # of options worth caching
_OPTIONS: Final = (
    "lane", "priority", "retry", "timeout", "deadline", "delay", "capabilities", "tags", "idempotency_key",
    "idempotency_window", "idempotency", "on_duplicate", "concurrency_key", "keep_for",
)  # fmt: skip
# Options that differ between submissions, so that caching a task with them is not worthwhile.
_OWN: Final = ("idempotency_key", "concurrency_key")


class Submission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call of a task. Durations are seconds.

    Its input is `args` and `kwargs`, as a Python task takes them; or `input`, any JSON value; or `input_base64`,
    any bytes, with their `encoding`.
    """

    task: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    input: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    input_base64: bytes | None = None
    encoding: str | None = None
    namespace: str | None = None
    lane: str | None = None
    priority: int | None = None
    retry: int | None = None
    timeout: float | None = None
    deadline: float | None = None
    delay: float | None = None
    capabilities: tuple[str, ...] | None = None
    tags: dict[str, str] | None = None
    idempotency_key: str | None = None
    idempotency_window: float | None = None
    idempotency: str | None = None
    on_duplicate: str | None = None
    concurrency_key: str | None = None
    keep_for: float | None = None

    def options(self) -> dict[str, Any]:
        return {name: value for name in _OPTIONS if (value := getattr(self, name)) is not None}


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """The execution, and whether it is new: `created`, `duplicate` of an earlier one, or `replaced` it."""

    execution_id: str
    outcome: str


class Bulk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Many at once; each has its own outcome."""

    submissions: Annotated[tuple[Submission, ...], msgspec.Meta(max_length=limits.REQUEST_MAX_ITEMS)]


async def submit(request: Request) -> Response:
    """201 with a new execution, 200 with an existing one."""
    service = Service.of(request)
    token = service.caller(request, Scope.SUBMIT)
    given = await _given(request, service)
    outcome = await service.gatherer.submit(await _args(service, token, given))
    submitted = _submitted(outcome)
    return answer(submitted, 201 if submitted.outcome == "created" else 200)


async def submit_bulk(request: Request) -> Response:
    """One outcome per item, in order; a refused item is an error and affects no other."""
    service = Service.of(request)
    token = service.caller(request, Scope.SUBMIT)
    body = await body_of(request, service.settings, takes_payloads=True)
    check_items(Bulk, body)
    bulk = read_json(Bulk, body)
    service.charge(request, token, bulk)
    args = [args async for args in _all_args(service, token, bulk)]
    outcomes = await service.store(token).submit_executions(args)
    return answer([each if isinstance(each, FlowFabricError) else _submitted(each) for each in outcomes])


async def _all_args(service: Service, token: Token, bulk: Bulk) -> AsyncIterator[c.CreateExecutionArgs]:
    """Submit in slices, and serve other calls in between."""
    for number, each in enumerate(bulk.submissions):
        if number and number % _SLICE == 0:
            await asyncio.sleep(0)
        yield await _args(service, token, each)


async def _given(request: Request, service: Service) -> Submission:
    """A JSON body holds everything; any other body is the input itself, with the options in the query."""
    body = await body_of(request, service.settings, takes_payloads=True)
    kind = (header(request, b"content-type") or _JSON).partition(";")[0].strip().lower()
    if kind == _JSON:
        given: Submission = read_json(Submission, body)
    else:
        given = _with_raw_input(request.query_params, body, kind)
    if key := header(request, b"idempotency-key"):
        if given.idempotency_key not in (None, key):
            problem = f"must be omitted, or {key!r} as in the header"
            raise InvalidInput("idempotency_key", given.idempotency_key, problem)
        given = replace(given, idempotency_key=key)
    return given


def _with_raw_input(query: QueryParams, body: bytes, kind: str) -> Submission:
    if "task" not in query:
        problem = f"must be in the address, like ?task=greet, as the body is {kind}; or send Content-Type: {_JSON}"
        raise InvalidInput("task", None, problem)
    given: Submission = from_plain(Submission, once(query), texts=True)
    return replace(given, input_base64=body, encoding=given.encoding or kind)


async def _args(service: Service, token: Token, given: Submission) -> c.CreateExecutionArgs:
    namespace = given.namespace or ("default" if token.is_for_all else token.namespaces[0])
    check_namespace(token, namespace)
    task = _task(await service.registered_tasks(namespace).task(given.task), given)
    submitter = service.submitter(namespace, token)
    if given.input is msgspec.UNSET and given.input_base64 is None:
        return submitter.args(task, task.encode_arguments(*given.args, **given.kwargs))
    if given.args or given.kwargs or (given.input is not msgspec.UNSET and given.input_base64 is not None):
        raise InvalidInput("input", "several", "must be given in one way: args and kwargs, input, or input_base64")
    payload = given.input_base64 if given.input_base64 is not None else bytes(given.input)  # type: ignore[arg-type]
    encoding = given.encoding or ("bytes" if given.input_base64 is not None else "json")
    return replace(submitter.args(task, payload), payload_encoding=encoding)


def _task(registered: Task[..., Any], given: Submission) -> Task[..., Any]:
    """The task with its registered options, which those of the submission override."""
    options = given.options()
    if not options:
        return registered
    text = msgspec.json.encode(options)
    if any(name in options for name in _OWN) or len(text) > _USUAL_BYTES:
        return registered.with_options(**options)
    return _usual_task(registered, text)


@lru_cache(maxsize=1024)
def _usual_task(registered: Task[..., Any], options: bytes) -> Task[..., Any]:
    """Cache the submitter of a task: most submissions have the same options."""
    return registered.with_options(**msgspec.json.decode(options))


_OUTCOMES: Final[dict[type[Any], str]] = {
    c.ExecutionCreated: "created",
    c.ExecutionDuplicate: "duplicate",
    c.ExecutionReplaced: "replaced",
}


def _submitted(outcome: c.CreateExecutionResult) -> Submitted:
    return Submitted(execution_id=str.__str__(outcome.execution_id), outcome=_OUTCOMES[type(outcome)])


ROUTES: Final = [
    Route(f"{PREFIX}/executions", submit, methods=["POST"]),
    ExactRoute(f"{PREFIX}/executions/bulk", submit_bulk, methods=["POST"]),
]
