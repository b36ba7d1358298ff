"""Errors as responses: one JSON shape, and the status of the error family."""

from __future__ import annotations

import logging
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from flowfabric.backends.http.problems import Problem
from flowfabric.core.codec import to_json
from flowfabric.errors import Family, FlowFabricError

_logger: Final = logging.getLogger("flowfabric.server")

_BY_FAMILY: Final[dict[Family, int]] = {
    Family.NOT_FOUND: 404,
    Family.CONFLICT: 409,
    Family.INVALID: 422,
    Family.LIMITED: 429,
    Family.UNAVAILABLE: 503,
    Family.INTERNAL: 500,
}
_BY_CODE: Final[dict[str, int]] = {
    "unauthorized": 401,
    "missing_token": 401,
    "forbidden": 403,
    "invalid_token": 403,
    "token_expired": 403,
    "payload_too_large": 413,
    "retention_limit_exceeded": 413,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "headers_too_large": 431,
    "invalid_dependency": 404,
}
_SHOWN: Final = 200  # characters of an address
_OF_STATUS: Final[dict[int, str]] = {404: "route_not_found", 405: "method_not_allowed", 413: "payload_too_large"}


def status_of(error: FlowFabricError) -> int:
    return _BY_CODE.get(error.code) or _BY_FAMILY[error.family]


def problem(error: FlowFabricError, request: Request | None = None) -> Response:
    status = status_of(error)
    request_id = str(getattr(request.state, "request_id", "")) if request is not None else ""
    headers = {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if (after_ms := error.details.get("retry_after_ms")) is not None:
        headers["Retry-After"] = str(max(1, -(-int(after_ms) // 1000)))
    elif status in (429, 503):
        headers["Retry-After"] = "1"
    if request is not None and getattr(request.state, "is_cut_off", False):
        headers["Connection"] = "close"
    body = to_json(Problem.of(error, request_id))
    return Response(body, status, headers, media_type="application/json")


async def on_flowfabric_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, FlowFabricError)
    if error.family is Family.INTERNAL:
        _logger.error("%s %s: %s", request.method, request.url.path, error)
    return problem(error, request)


async def on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _OF_STATUS.get(error.status_code, "invalid_input")
    allowed = ", ".join(_methods(request)) if error.status_code == 405 else ""
    answer = problem(FlowFabricError(_said(request, error, allowed), code=code), request)
    answer.status_code = error.status_code
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    if allowed:
        answer.headers["Allow"] = allowed
    return answer


def _said(request: Request, error: HTTPException, allowed: str) -> str:
    path = request.url.path[:_SHOWN]
    if allowed:
        return f"{path} takes {allowed}, and no {request.method}"
    if error.status_code == 404:
        return f"no route for {path}; /openapi.json lists all paths"
    return str(error.detail)


def _methods(request: Request) -> list[str]:
    """All methods of the path, from all its routes."""
    routes = [each for each in request.app.routes if isinstance(each, Route)]
    path = next((each.path for each in routes if each.endpoint is request.scope.get("endpoint")), "")
    return sorted({method for each in routes if each.path == path for method in each.methods or ()})


def on_bug(request: Request, error: Exception) -> Response:
    """Any other exception: logged, but not shown to the caller."""
    _logger.exception("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(FlowFabricError("the server failed; its log says why", code="bad_reply"), request)
