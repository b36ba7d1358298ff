"""How a server listens, whom it lets in, and how much of anybody it takes."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, fields
from typing import Final

from flowfabric.core import limits
from flowfabric.errors import InvalidInput

_MINUTE_MS: Final = 60_000

_ORIGIN: Final = re.compile(r"https?://[^\s/?#@]+|\*")

_BOUNDS: Final[dict[str, tuple[int, int]]] = {
    "port": (0, 65_535),
    "body_bytes": (1_024, 1 << 30),
    "payload_body_bytes": (1_024, 1 << 30),
    "body_timeout_ms": (100, _MINUTE_MS),
    "long_poll_ms": (0, 5 * _MINUTE_MS),
    "keep_alive_ms": (100, _MINUTE_MS),
    "rate_per_second": (0, 1_000_000),
    "rate_burst": (1, 1_000_000),
    "sse_clients": (1, 1_000_000),
    "streams_per_token": (1, 1_000_000),
    "waits_per_token": (1, 1_000_000),
    "stop_grace_ms": (0, _MINUTE_MS),
}


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """docs/reference/server.md explains each. Times are milliseconds."""

    host: str = "127.0.0.1"
    port: int = 9090
    tokens: str = ""  # the file that names the tokens; without one everybody may do everything, on loopback only
    origins: tuple[str, ...] = ()  # other sites whose pages may call the API
    body_bytes: int = 256 * 1024
    payload_body_bytes: int = 4 * 1024 * 1024  # where inputs, results, frames or signals are sent
    body_timeout_ms: int = 15_000
    long_poll_ms: int = 30_000
    keep_alive_ms: int = 15_000  # how often a quiet stream of events says that it is alive
    rate_per_second: int = 0  # of one token or, without tokens, one address; 0 is no limit
    rate_burst: int = 200
    sse_clients: int = 5_000
    streams_per_token: int = 1_000  # or, without tokens, of one address
    waits_per_token: int = 1_000  # calls that wait for something
    stop_grace_ms: int = 5_000
    audit_log: bool = True

    def __post_init__(self) -> None:
        for setting in fields(self):
            if setting.name in _BOUNDS:
                limits.whole(setting.name, getattr(self, setting.name), *_BOUNDS[setting.name])
        if not self.tokens and not is_loopback(self.host):
            problem = "is not loopback, so a file of tokens must be given (--tokens, `flowfabric token new` makes one)"
            raise InvalidInput("host", self.host, problem)
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise InvalidInput(
                    "origin", origin, "must be a site as browsers name it, like https://app.example:8443"
                )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
