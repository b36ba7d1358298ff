"""The OpenAPI 3.1 document, generated from the table of operations and the types of the ports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from starlette.routing import BaseRoute

from flowfabric import __version__
from flowfabric.backends.http.operations import OPERATIONS, PREFIX, Operation
from flowfabric.backends.http.problems import Problem
from flowfabric.backends.http.shapes import FinishRequest, Work
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.codec import encode_id
from flowfabric.core.ids import ExecutionId, TextId, UuidId
from flowfabric.server.http.decoding import request_type
from flowfabric.server.reference.openapi_routes import JSON as _JSON
from flowfabric.server.reference.openapi_routes import other_routes, responses
from flowfabric.server.routes.insight import InboxPage, InboxQuery, Why, WhyQuery
from flowfabric.server.routes.overview import Overview, OverviewQuery
from flowfabric.server.routes.submitting import Bulk, Submission, Submitted
from flowfabric.server.routes.work import WaitingClaim

_REF: Final = "#/components/schemas/{name}"
_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


_BOUNDS: Final = (
    f"JSON is nested {limits.JSON_MAX_DEPTH} levels deep at most, and a list has at most {limits.REQUEST_MAX_ITEMS} "
    "items where its schema says nothing else (422). The server's settings bound headers (431), bodies (413), their "
    "times (408), members of a query (422), connections (429, 503) and calls, of which a batch is as many as it has "
    "items (429)."
)


class Refused(msgspec.Struct, frozen=True):
    """A refused item; the others of the batch have their own outcomes."""

    error: Problem


# JSON forms of port results that never leave the process: lists of one kind or refusals.
_OUTCOMES: Final[dict[str, Any]] = {
    "submit_executions": c.CreateExecutionResult,
    "append_frames": c.AppendFramesResult,
    "claim_executions": Work,
}
_FINISHED: Final = {
    "finished": c.CompleteExecutionResult | c.FailExecutionResult,
    "renewed": c.RenewLeaseResult,
    "claimed": Work,
}


def document(routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """The whole document: the operations of the table, and the other routes."""
    kinds = _kinds()
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF, schema_hook=_schema_of)
    by_kind = dict(zip(map(_name, kinds), schemas, strict=True))
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, by_kind)
    for path, method, described in _others(by_kind):
        paths.setdefault(path, {})[method] = described
    for path, method, described in other_routes(routes):
        paths.setdefault(path, {}).setdefault(method, described)
    found = {
        "openapi": "3.1.0",
        "info": {
            "title": "FlowFabric",
            "version": __version__,
            "license": {"name": "Apache-2.0"},
            "description": _BOUNDS,
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found, enc_hook=encode_id))
    return plain


def _kinds() -> list[Any]:
    found: list[Any] = [
        Problem,
        Submission,
        Submitted,
        Bulk,
        WaitingClaim,
        Work,
        Refused,
        FinishRequest,
        *_FINISHED.values(),
        Overview,
        InboxPage,
        Why,
    ]
    for operation in OPERATIONS:
        if operation.port == "finish_executions":
            continue
        found += [request_type(operation), _OUTCOMES.get(operation.port, operation.signature.result)]
    return list({_name(kind): kind for kind in found}.values())


def _name(kind: Any) -> str:
    return str(kind)


def _result(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    if operation.port == "finish_executions":
        lists = {name: each_or_refused(schemas[_name(kind)], schemas) for name, kind in _FINISHED.items()}
        return {"type": "object", "properties": lists, "required": list(lists)}
    if operation.port in _OUTCOMES:
        return each_or_refused(schemas[_name(_OUTCOMES[operation.port])], schemas)
    return dict(schemas[_name(operation.signature.result)])


def each_or_refused(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": {"anyOf": [schema, schemas[_name(Refused)]]}}


def _schema_of(kind: type) -> dict[str, Any]:
    """Ids are text."""
    if issubclass(kind, UuidId):
        return {"type": "string", "pattern": f"^{_UUID}$"}
    if issubclass(kind, ExecutionId):
        return {"type": "string", "pattern": r"^(\{fp:(0|[1-9][0-9]{0,3})\}:|(0|[1-9][0-9]{0,3})-)" + f"{_UUID}$"}
    if issubclass(kind, TextId | str):
        return {"type": "string", "minLength": 1}
    raise NotImplementedError


def _described(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    request = request_type(operation)
    described: dict[str, Any] = {
        "operationId": operation.port,
        "summary": operation.signature.summary.partition("\n")[0],
        "description": f"Scope: {' or '.join(f'`{each}`' for each in operation.scopes)}.",
        "tags": [operation.path.removeprefix(PREFIX).split("/")[1]],
        "parameters": [_parameter(request, name, "path") for name in operation.parameters],
        "responses": responses(_result(operation, schemas)),
    }
    if operation.has_body:
        needs = {each.name for each in msgspec.structs.fields(request) if each.required}
        described["requestBody"] = {
            "content": {_JSON: {"schema": _body(request, operation.parameters)}},
            "required": not needs <= set(operation.parameters),
        }
    else:
        names = [name for name in request.__struct_fields__ if name not in operation.parameters]
        described["parameters"] += [_parameter(request, name, "query") for name in names]
    return described


def _parameter(request: type[msgspec.Struct], name: str, place: str) -> dict[str, Any]:
    field = next(each for each in msgspec.structs.fields(request) if each.name == name)
    (schema,), _ = msgspec.json.schema_components([field.type], ref_template=_REF, schema_hook=_schema_of)
    described: dict[str, Any] = {"name": name, "in": place, "required": place == "path" or field.required}
    is_plain = "$ref" not in schema and schema.get("type") not in ("object", "array")
    return described | ({"schema": schema} if is_plain else {"content": {_JSON: {"schema": schema}}})


def _body(request: type[msgspec.Struct], in_path: tuple[str, ...]) -> dict[str, Any]:
    """The struct without the path parameters."""
    reference = _REF.format(name=request.__name__)
    if not in_path:
        return {"$ref": reference}
    (_,), components = msgspec.json.schema_components([request], ref_template=_REF, schema_hook=_schema_of)
    schema = dict(components[request.__name__])
    schema["properties"] = {name: each for name, each in schema["properties"].items() if name not in in_path}
    schema["required"] = [name for name in schema.get("required", ()) if name not in in_path]
    return schema


def _others(schemas: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """The routes that are not ports."""

    def taking(kind: Any, result: dict[str, Any], operation_id: str, summary: str) -> dict[str, Any]:
        return {
            "operationId": operation_id,
            "summary": summary,
            "tags": ["executions" if "submit" in operation_id else "work"],
            "requestBody": {"content": {_JSON: {"schema": schemas[_name(kind)]}}, "required": True},
            "responses": responses(result),
        }

    def place_of(name: str) -> str:
        return "path" if name == "execution_id" else "query"

    def reading(query: type[msgspec.Struct], result: Any, operation_id: str, summary: str) -> dict[str, Any]:
        return {
            "operationId": operation_id,
            "summary": summary,
            "description": "Scope: `read`.",
            "tags": ["looking"],
            "parameters": [_parameter(query, each, place_of(each)) for each in query.__struct_fields__],
            "responses": responses(schemas[_name(result)]),
        }

    submitted = schemas[_name(Submitted)]
    submit = taking(Submission, submitted, "submit", "Submit a call of a task.")
    submit["responses"]["201"] = {"description": "created", "content": {_JSON: {"schema": submitted}}}
    bulk, works = each_or_refused(submitted, schemas), each_or_refused(schemas[_name(Work)], schemas)
    why = f"{PREFIX}/executions/{{execution_id}}/why"
    return [
        (f"{PREFIX}/executions", "post", submit),
        (f"{PREFIX}/executions/bulk", "post", taking(Bulk, bulk, "submit_bulk", "Submit many at once.")),
        (f"{PREFIX}/work/claim", "post", taking(WaitingClaim, works, "claim", "Claim work, waiting for some.")),
        (f"{PREFIX}/overview", "get", reading(OverviewQuery, Overview, "overview", "The state of the store.")),
        (
            f"{PREFIX}/inbox",
            "get",
            reading(InboxQuery, InboxPage, "inbox", "Executions that wait for a person or a system."),
        ),
        (why, "get", reading(WhyQuery, Why, "why", "Why an execution does or does not run.")),
    ]
