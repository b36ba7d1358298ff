"""Pages that may call a server without tokens: its own, and those that the settings name.

A browser on this machine reaches loopback for any site it shows, so a local request is not trusted by itself.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.requests import Request

from flowfabric.errors import FlowFabricError
from flowfabric.server.access.peers import Peers
from flowfabric.server.http.headers import header
from flowfabric.server.settings import is_loopback


def check_origin(request: Request, allowed: Collection[str], peers: Peers) -> None:
    """Refuse requests from pages of other sites, and requests to a host name that is not this machine's."""
    host = header(request, b"host") or ""
    if not _is_here(host):
        problem = "a server without tokens accepts only host names of this machine, such as localhost"
        raise FlowFabricError(problem, code="forbidden", host=host)
    origin = header(request, b"origin")
    if origin is None or origin in allowed or origin == f"{peers.scheme(request)}://{host}":
        return
    raise FlowFabricError("pages of other sites may not call it; name them with --origin", code="forbidden")


@lru_cache(maxsize=64)
def _is_here(host: str) -> bool:
    """Whether it is a name of this machine."""
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
