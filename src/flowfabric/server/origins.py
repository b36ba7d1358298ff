"""Which pages may call a server that has no tokens: its own, and those that the settings name.

A browser on this machine reaches loopback for any site that it shows, so being there proves nothing of a request.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.requests import Request

from flowfabric.errors import FlowFabricError
from flowfabric.server.settings import is_loopback


def check_origin(request: Request, allowed: Collection[str]) -> None:
    """Refuse what another site's page sends, and what a name reaches that is not this machine's."""
    host = request.headers.get("host", "")
    if not is_loopback(_name(f"//{host}")):
        problem = "a server without tokens is called by a name of this machine, such as localhost"
        raise FlowFabricError(problem, code="forbidden", host=host)
    origin = request.headers.get("origin")
    if origin is None or origin in allowed or origin == f"{request.url.scheme}://{host}":
        return
    raise FlowFabricError("pages of other sites may not call it; name them with --origin", code="forbidden")


def _name(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
