"""Decode a request into the arguments of a port: the path, then the query of a GET or the JSON body."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, Final

import msgspec
from msgspec import inspect
from starlette.datastructures import QueryParams
from starlette.requests import Request

from flowfabric.backends.http.operations import Operation
from flowfabric.backends.http.shapes import FinishRequest
from flowfabric.core.codec import from_plain
from flowfabric.errors import FlowFabricError, InvalidInput
from flowfabric.server.http.bounds import check_items, read_json
from flowfabric.server.http.headers import header
from flowfabric.server.settings import ServerSettings

_STRUCTURED: Final = (inspect.StructType, inspect.VarTupleType, inspect.DictType, inspect.ListType)

_HUGE: Final = 16  # times the limit of a route


async def body_of(request: Request, settings: ServerSettings, *, takes_payloads: bool = False) -> bytes:
    """The body, within the limits on its size and time."""
    most = settings.payload_body_bytes if takes_payloads else settings.body_bytes
    size, parts = 0, []
    _check_announced(request, most)
    state = request.scope["state"]
    state["is_cut_off"] = True  # until the body was read: a refused client could otherwise send forever
    try:
        async with asyncio.timeout(settings.body_timeout_ms / 1000):
            is_whole = False
            while not is_whole:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise InvalidInput("body", f"{size} bytes", "must arrive whole")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most:
                    raise _too_large(most)
                is_whole = not message.get("more_body", False)
    except TimeoutError:
        most_ms = settings.body_timeout_ms
        problem = f"the body must arrive within {most_ms} ms, and {size} bytes of it did"
        raise FlowFabricError(problem, code="request_timeout", limit=most_ms) from None
    state["is_cut_off"] = False
    return b"".join(parts)


def _check_announced(request: Request, most: int) -> None:
    """Skip a body that declares itself too large; close the connection for a huge one."""
    announced = header(request, b"content-length") or ""
    if announced.isdecimal() and int(announced) > most:
        request.state.is_cut_off = int(announced) > _HUGE * most
        raise _too_large(most)


def _too_large(most: int) -> FlowFabricError:
    return FlowFabricError(f"the body must be at most {most} bytes", code="payload_too_large", limit=most)


async def request_of(operation: Operation, request: Request, settings: ServerSettings) -> Any:
    """The arguments of the operation's port."""
    kind = request_type(operation)
    if not operation.has_body:
        return query_of(operation, request)
    body = await body_of(request, settings, takes_payloads=operation.takes_payloads)
    check_items(kind, body)
    if not operation.parameters:
        return read_json(kind, body or b"{}")
    members = read_json(dict[str, Any], body or b"{}")
    for name, value in request.path_params.items():
        if members.setdefault(name, value) != value:
            raise InvalidInput(name, members[name], f"must be omitted, or {value} as in the path")
    return from_plain(kind, _numbered(kind, members, request.path_params))


def query_of(operation: Operation, request: Request, *, leave_out: Collection[str] = ()) -> Any:
    """The arguments of a GET: its path and its query, without members unknown to the port."""
    kind = request_type(operation)
    given = {name: value for name, value in _query(kind, request).items() if name not in leave_out}
    return from_plain(kind, given | request.path_params, texts=True)


def request_type(operation: Operation) -> type[msgspec.Struct]:
    return FinishRequest if operation.port == "finish_executions" else operation.signature.request


def once(query: QueryParams) -> dict[str, Any]:
    """The members of a query, each at most once."""
    given: dict[str, Any] = {}
    for name, value in query.multi_items():
        if name in given:
            raise InvalidInput(name, f"{given[name]}, {value}", "must be given once")
        given[name] = value
    return given


def _query(kind: type[msgspec.Struct], request: Request) -> dict[str, Any]:
    """The query; members that are not plain values are JSON."""
    given = once(request.query_params)
    for name in given.keys() & _structured(kind):
        given[name] = read_json(Any, given[name], root=name)
    return given


def _numbered(kind: type[msgspec.Struct], members: dict[str, Any], in_path: dict[str, Any]) -> dict[str, Any]:
    """Numbers in the path are text."""
    for field in msgspec.structs.fields(kind):
        if field.name in in_path and isinstance(inspect.type_info(field.type), inspect.IntType):
            members[field.name] = from_plain(dict[str, int], {field.name: in_path[field.name]}, texts=True)[field.name]
    return members


def _structured(kind: type[msgspec.Struct]) -> set[str]:
    found = set()
    for field in msgspec.structs.fields(kind):
        info = inspect.type_info(field.type)
        options = info.types if isinstance(info, inspect.UnionType) else (info,)
        if any(isinstance(each, _STRUCTURED) for each in options):
            found.add(field.name)
    return found
