"""One header of a request, found without building a mapping of all headers: every call needs some."""

from __future__ import annotations

from starlette.requests import Request


def header(request: Request, name: bytes) -> str | None:
    """The first header of this lower-case name; None without one."""
    for key, value in request.scope["headers"]:
        if key == name:
            found: str = value.decode("latin-1")
            return found
    return None
