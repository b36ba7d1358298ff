"""OpenAPI entries of the routes that are not ports, and of the refusals of all calls."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from starlette.routing import BaseRoute, Route

from flowfabric.backends.http.operations import PREFIX

JSON: Final = "application/json"
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_REFUSALS: Final = {
    "401": "the token is missing or unknown", "403": "the token does not permit it", "404": "no such record",
    "405": "the path has other methods", "408": "it took too long to arrive",
    "409": "the stored state does not allow it", "410": "it is over",
    "413": "it is too large", "422": "the input is wrong", "429": "a limit is reached",
    "400": "it is not HTTP", "431": "its headers are too many or too large",
    "503": "the store cannot be reached, or all connections are busy",
}  # fmt: skip
_STREAMS: Final = [
    "execution_events", "flow_events", "log_events", "execution_stream", "execution_logs", "wakeups", "budget_wakeups",
    "due_wakeups",
]  # fmt: skip
# Responses that are not JSON, by handler.
_MEDIA: Final = dict.fromkeys(_STREAMS, "text/event-stream") | {"metrics": "text/plain", "show": "text/html"}
_OPEN: Final = frozenset({"/healthz", "/readyz", "/openapi.json"})


def responses(schema: dict[str, Any], status: str = "200", media: str = JSON) -> dict[str, Any]:
    """A response, and every refusal, in the common form."""
    problem = {"content": {JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    found = {status: {"description": "done", "content": {media: {"schema": schema}}}}
    return found | {code: {"description": text, **problem} for code, text in _REFUSALS.items()}


def other_routes(routes: Iterable[BaseRoute]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, method and description of the API routes; pages and their files are not included."""
    for route in routes:
        if isinstance(route, Route) and (route.path.startswith(f"{PREFIX}/") or route.path in _OPEN):
            for method in sorted((route.methods or set()) - {"HEAD"}):
                yield route.path, method.lower(), _described(route)


def _described(route: Route) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": route.name,
        "summary": (inspect.getdoc(route.endpoint) or "").partition("\n")[0],
        "tags": [route.path.removeprefix(PREFIX).split("/")[1]],
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in _PARAMETER.findall(route.path)
        ],
        "responses": responses({}, media=_MEDIA.get(route.name, JSON)),
    }
    return described | ({"security": []} if route.path in _OPEN else {})
