"""The OpenAPI 3.1 document, made from the table of operations and the types of the ports."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

from flowfabric import __version__
from flowfabric.backends.http.operations import OPERATIONS, PREFIX, Operation
from flowfabric.backends.http.problems import Problem
from flowfabric.backends.http.shapes import FinishRequest, Work
from flowfabric.core.ids import TextId, UuidId
from flowfabric.server.decoding import request_type
from flowfabric.server.routes.looking import InboxPage, InboxQuery, Why, WhyQuery
from flowfabric.server.routes.overview import Overview, OverviewQuery
from flowfabric.server.routes.submitting import Bulk, Submission, Submitted
from flowfabric.server.routes.work import WaitingClaim

_REF: Final = "#/components/schemas/{name}"
_JSON: Final = "application/json"


class Refused(msgspec.Struct, frozen=True):
    """An item that was refused; the others of the batch have their own outcomes."""

    error: Problem


# What JSON answers where the port answers something that never leaves the process.
_RESULTS: Final[dict[str, Any]] = {
    "submit_executions": list[dict[str, Any]],
    "append_frames": list[dict[str, Any]],
    "claim_executions": list[dict[str, Any]],
    "finish_executions": dict[str, Any],
}


@cache
def document() -> dict[str, Any]:
    """The whole document."""
    kinds = _kinds()
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF, schema_hook=_schema_of)
    by_kind = dict(zip(map(_name, kinds), schemas, strict=True))
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, by_kind)
    for path, method, described in _others(by_kind):
        paths.setdefault(path, {})[method] = described
    found = {
        "openapi": "3.1.0",
        "info": {"title": "FlowFabric", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))
    return plain


def _kinds() -> list[Any]:
    found: list[Any] = [Problem, Submission, Submitted, Bulk, WaitingClaim, Work, Refused, FinishRequest]
    found += [Overview, InboxPage, Why]
    for operation in OPERATIONS:
        found += [request_type(operation), _result(operation)]
    return list({_name(kind): kind for kind in found}.values())


def _name(kind: Any) -> str:
    return str(kind)


def _result(operation: Operation) -> Any:
    return _RESULTS.get(operation.port, operation.signature.result)


def _schema_of(kind: type) -> dict[str, Any]:
    """Ids are text."""
    if issubclass(kind, UuidId):
        return {"type": "string", "format": "uuid"}
    if issubclass(kind, TextId | str):
        return {"type": "string"}
    raise NotImplementedError


def _described(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    request = request_type(operation)
    described: dict[str, Any] = {
        "operationId": operation.port,
        "summary": operation.signature.summary.partition("\n")[0],
        "description": f"Scope: `{operation.scope}`.",
        "tags": [operation.path.removeprefix(PREFIX).split("/")[1]],
        "parameters": [_parameter(request, name, "path") for name in operation.parameters],
        "responses": _responses(schemas[_name(_result(operation))]),
    }
    if operation.has_body:
        described["requestBody"] = {
            "content": {_JSON: {"schema": _body(request, operation.parameters)}},
            "required": True,
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
    """The struct without what the address says."""
    reference = _REF.format(name=request.__name__)
    if not in_path:
        return {"$ref": reference}
    (_,), components = msgspec.json.schema_components([request], ref_template=_REF, schema_hook=_schema_of)
    schema = dict(components[request.__name__])
    schema["properties"] = {name: each for name, each in schema["properties"].items() if name not in in_path}
    schema["required"] = [name for name in schema.get("required", ()) if name not in in_path]
    return schema


def _responses(schema: dict[str, Any], status: str = "200") -> dict[str, Any]:
    problem = {"content": {_JSON: {"schema": {"$ref": _REF.format(name="Problem")}}}}
    refusals = {
        "401": "who calls is not known", "403": "the token does not allow it", "404": "it is not there",
        "409": "the stored state does not allow it", "413": "it is too large", "422": "the input is wrong",
        "429": "a limit is reached", "503": "the store cannot be reached",
    }  # fmt: skip
    found = {status: {"description": "done", "content": {_JSON: {"schema": schema}}}}
    return found | {code: {"description": text, **problem} for code, text in refusals.items()}


def _others(schemas: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """The addresses that are no ports."""

    def taking(kind: Any, result: dict[str, Any], operation_id: str, summary: str) -> dict[str, Any]:
        return {
            "operationId": operation_id,
            "summary": summary,
            "tags": ["executions" if "submit" in operation_id else "work"],
            "requestBody": {"content": {_JSON: {"schema": schemas[_name(kind)]}}, "required": True},
            "responses": _responses(result),
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
            "responses": _responses(schemas[_name(result)]),
        }

    submitted, work = schemas[_name(Submitted)], schemas[_name(Work)]
    refused = schemas[_name(Refused)]
    submit = taking(Submission, submitted, "submit", "Submit a call of a task.")
    submit["responses"]["201"] = {"description": "created", "content": {_JSON: {"schema": submitted}}}
    bulk = {"type": "array", "items": {"anyOf": [submitted, refused]}}
    works = {"type": "array", "items": {"anyOf": [work, refused]}}
    why = f"{PREFIX}/executions/{{execution_id}}/why"
    return [
        (f"{PREFIX}/executions", "post", submit),
        (f"{PREFIX}/executions/bulk", "post", taking(Bulk, bulk, "submit_bulk", "Submit many at once.")),
        (f"{PREFIX}/work/claim", "post", taking(WaitingClaim, works, "claim", "Claim work, waiting for some.")),
        (f"{PREFIX}/overview", "get", reading(OverviewQuery, Overview, "overview", "How the store stands, and stood.")),
        (f"{PREFIX}/inbox", "get", reading(InboxQuery, InboxPage, "inbox", "Who or what is being waited for.")),
        (why, "get", reading(WhyQuery, Why, "why", "Why an execution does or does not run.")),
    ]
