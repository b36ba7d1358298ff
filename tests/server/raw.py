"""Requests byte by byte, which a proper client would refuse to send."""

from __future__ import annotations

import asyncio
from typing import NamedTuple
from urllib.parse import urlsplit

WITHIN_S = 20


class Answer(NamedTuple):
    status: int
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def is_json(self) -> bool:
        return self.headers.get(b"content-type", b"").startswith(b"application/json") and bool(self.body)


async def ask(url: str, request: bytes) -> Answer:
    """What the server answers to these bytes, up to the end of the connection or of what it announced."""
    place = urlsplit(url)
    assert place.port is not None
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        async with asyncio.timeout(WITHIN_S):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            first, *lines = head.split(b"\r\n")
            pairs = (line.split(b": ", 1) for line in lines if line)
            headers = {name.lower(): value for name, value in pairs}
            is_bodiless = request.startswith(b"HEAD") or b"content-length" not in headers
            body = b"" if is_bodiless else await reader.readexactly(int(headers[b"content-length"]))
        return Answer(int(first.split()[1]), headers, body)
    finally:
        writer.close()
