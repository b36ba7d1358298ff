"""A route for every port, from the table of operations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from flowfabric.backends.http.operations import OPERATIONS, Operation
from flowfabric.backends.http.shapes import FinishRequest
from flowfabric.errors import CODES, FlowFabricError
from flowfabric.server.access.scopes import check_hold, enter, narrowed, without_tokens
from flowfabric.server.access.tokens import Token
from flowfabric.server.http.decoding import request_of
from flowfabric.server.http.disconnects import unless_left
from flowfabric.server.http.exact_route import ExactRoute
from flowfabric.server.service import Service, answer
from flowfabric.server.settings import ServerSettings

Handler = Callable[[Request], Awaitable[Response]]
Call = Callable[[Request, Token, Any], Awaitable[Any]]

# For these, None is a 404; other operations return None for other reasons.
_ABSENT: Final = {
    "describe_execution": "execution_not_found",
    "get_execution": "execution_not_found",
    "get_execution_state": "execution_not_found",
    "describe_flow": "flow_not_found",
    "describe_edge": "invalid_dependency",
    "read_summary": "stream_not_found",
}
_EXACT: Final = ("submit_executions", "apply_dependency_to_child")
_SECRET: Final = {"Cache-Control": "no-store"}


def routes() -> list[Route]:
    """Fixed paths first, because another route would match them as a parameter."""
    exact = [each for each in OPERATIONS if each.port in _EXACT]
    return [_route(ExactRoute, each) for each in exact] + [
        _route(Route, each) for each in OPERATIONS if each not in exact
    ]


def _route(kind: type[Route], operation: Operation) -> Route:
    return kind(operation.path, handler(operation), methods=[operation.method], name=operation.port)


def handler(operation: Operation) -> Handler:
    """The handler of an operation."""
    call = _call_of(operation)

    async def handle(request: Request) -> Response:
        service = Service.of(request)
        token = service.caller(request, *operation.scopes)
        enter(operation, token)
        given = await request_of(operation, request, service.settings)
        service.charge(request, token, given)
        check_hold(operation, token, given)
        args = narrowed(operation, token, given)
        result = await call(request, token, args)
        if operation.port == "read_steps":
            result = without_tokens(token, result)
        if operation.is_audited and token.allows(operation.scope):
            service.audit(request, token, operation.port, **ids_of(args))
        if result is None and operation.port in _ABSENT:
            raise _absent(_ABSENT[operation.port], request)
        return answer(result, headers=_SECRET if operation.port == "read_waitpoint_token" else None)

    handle.__name__ = operation.port
    return handle


def _absent(code: str, request: Request) -> FlowFabricError:
    which = ", ".join(map(str, request.path_params.values()))
    return FlowFabricError(f"{which}: {CODES[code].meaning}", code=code, absent=True)


def ids_of(args: Any) -> dict[str, Any]:
    """The ids that a call names, for the audit log."""
    return {name: getattr(args, name) for name in args.__struct_fields__ if name == "namespace" or name.endswith("_id")}


def _call_of(operation: Operation) -> Call:
    if operation.port == "finish_executions":
        return _finish
    port = operation.signature.call

    async def call(request: Request, token: Token, args: Any) -> Any:
        return await port(Service.of(request).store(token), args)

    async def wait(request: Request, token: Token, args: Any) -> Any:
        service = Service.of(request)
        with service.wait_shares.one(service.name_of(request, token)):
            return await unless_left(request, port(service.store(token), _bounded(args, service.settings)))

    return wait if operation.waits else call


async def _finish(request: Request, token: Token, args: FinishRequest) -> Any:
    return await Service.of(request).store(token).finish_executions(args.args())


def _bounded(args: Any, settings: ServerSettings) -> Any:
    """Bound the wait; a client that needs longer calls again."""
    name = "timeout_ms" if hasattr(args, "timeout_ms") else "block_ms"
    return replace(args, **{name: min(getattr(args, name), settings.long_poll_ms)})
