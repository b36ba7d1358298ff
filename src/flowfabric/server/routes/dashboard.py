"""The dashboard: a page and its modules, read once and served unchanged. It uses only the public API."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_ROOT: Final = Path(__file__).parent.parent / "dashboard"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class Asset(NamedTuple):
    """One file, and the tag by which a browser checks its cache."""

    content: bytes
    media_type: str
    etag: str


@cache
def assets() -> dict[str, Asset]:
    """All files by path; only these are served, so no other path is reachable."""
    found = {}
    for path in sorted(_ROOT.rglob("*")):
        if path.suffix in _TYPES:
            content = path.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[path.relative_to(_ROOT).as_posix()] = Asset(content, _TYPES[path.suffix], etag)
    return found


async def index(request: Request) -> Response:
    """The page."""
    return _served(request, "index.html")


async def asset(request: Request) -> Response:
    """The files of the page."""
    return _served(request, request.path_params["path"])


def _served(request: Request, path: str) -> Response:
    """The file, or 304 if the browser has it; the browser always asks, so a new version shows at once."""
    found = assets().get(path)
    if found is None:
        raise HTTPException(404, f"no file {path}")
    headers = {"ETag": found.etag, "Cache-Control": "no-cache"}
    if found.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(found.content, headers=headers, media_type=found.media_type)


ROUTES: Final = [Route("/", index), Route("/dashboard/{path:path}", asset)]
