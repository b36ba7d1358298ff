"""Server settings: where it listens, which callers it admits, and how much it accepts from each."""

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
    "connections": (0, 1_000_000),
    "connections_per_peer": (0, 1_000_000),
    "header_bytes": (1_024, 1 << 20),
    "header_fields": (8, 10_000),
    "header_timeout_ms": (100, _MINUTE_MS),
    "body_timeout_ms": (100, _MINUTE_MS),
    "write_timeout_ms": (100, 10 * _MINUTE_MS),
    "idle_timeout_ms": (1_000, 60 * _MINUTE_MS),
    "query_parameters": (1, 100_000),
    "long_poll_ms": (0, 5 * _MINUTE_MS),
    "keep_alive_ms": (100, _MINUTE_MS),
    "rate_per_second": (0, 1_000_000),
    "rate_burst": (1, 1_000_000),
    "failures_per_second": (0, 1_000_000),
    "failure_burst": (1, 1_000_000),
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
    tokens: str = ""  # the token file; without one every caller may do everything, on loopback only
    origins: tuple[str, ...] = ()  # other sites whose pages may call the API
    proxies: tuple[str, ...] = ()  # addresses and networks whose X-Forwarded-For and -Proto are trusted
    connections: int = 0  # concurrent; 0: the limit of open files, minus the server's own
    connections_per_peer: int = 0  # of one address that is not a proxy; 0: half of all
    header_bytes: int = 32 * 1024  # of an address and all headers, and of trailers, which are dropped
    header_fields: int = 100
    header_timeout_ms: int = 10_000  # from the first byte of a request to the end of its headers
    body_bytes: int = 256 * 1024
    payload_body_bytes: int = 4 * 1024 * 1024  # where inputs, results, frames or signals are sent
    body_timeout_ms: int = 15_000
    write_timeout_ms: int = 30_000  # for a client to read pending data
    idle_timeout_ms: int = 75_000  # between requests; longer than in clients and proxies, so none loses a request
    query_parameters: int = 1_000  # of an address, and fields of a form
    long_poll_ms: int = 30_000
    keep_alive_ms: int = 15_000  # the keep-alive interval of a quiet event stream
    rate_per_second: int = 0  # of one token or, without tokens, one address; 0 is no limit
    rate_burst: int = 200
    failures_per_second: int = 1  # wrong tokens and links of one address; 0 is no limit
    failure_burst: int = 30
    sse_clients: int = 5_000
    streams_per_token: int = 1_000  # or, without tokens, of one address
    waits_per_token: int = 1_000  # concurrent waiting calls
    stop_grace_ms: int = 5_000
    audit_log: bool = True

    def __post_init__(self) -> None:
        for setting in fields(self):
            if setting.name in _BOUNDS:
                limits.whole(setting.name, getattr(self, setting.name), *_BOUNDS[setting.name])
        if not self.tokens and not is_loopback(self.host):
            problem = "is not loopback, so a file of tokens must be given (--tokens, `flowfabric token new` makes one)"
            raise InvalidInput("host", self.host, problem)
        for proxy in self.proxies:
            network("proxies", proxy)
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise InvalidInput(
                    "origin", origin, "must be a site as browsers name it, like https://app.example:8443"
                )


KINDS: Final[dict[str, type]] = {each.name: type(each.default) for each in fields(ServerSettings)}


def network(field: str, text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """An address, or a network like 10.0.0.0/8."""
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        problem = "must be an address, like 10.0.0.7, or a network, like 10.0.0.0/8"
        raise InvalidInput(field, text, problem) from None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
