"""The client behind a connection: an address that counts as one caller, and trusted proxies.

Forwarding headers are trusted only from the configured proxies.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from starlette.requests import Request

from flowfabric.server.http.headers import header
from flowfabric.server.settings import network

_FORWARDED_FOR: Final = b"x-forwarded-for"
_SCHEMES: Final = ("http", "https")
_LONGEST: Final = 64  # characters of an address
_HOPS: Final = 16
_OF_ONE: Final = 64  # bits of an IPv6 network, within which one host may use any address


class Peers:
    """The addresses by which callers are counted."""

    def __init__(self, proxies: Iterable[str]) -> None:
        self._proxies = tuple(network("proxies", each) for each in proxies)

    def is_proxy(self, host: str | None) -> bool:
        address = _address(host or "") if self._proxies else None
        return address is not None and any(address in each for each in self._proxies)

    def of(self, request: Request) -> str:
        """The client address: the peer or, behind a trusted proxy, the last forwarded address that is not a proxy."""
        host = request.client.host if request.client else ""
        if not self.is_proxy(host):
            return one(host)
        for said in _forwarded(request):
            if _address(said) is None:
                break  # invalid input of a client: the proxy itself counts as the caller
            host = said
            if not self.is_proxy(said):
                break
        return one(host)

    def scheme(self, request: Request) -> str:
        """The scheme the caller used to reach the proxy or this server."""
        if self._proxies and self.is_proxy(request.client.host if request.client else ""):
            said = (header(request, b"x-forwarded-proto") or "").strip().lower()
            if said in _SCHEMES:
                return said
        return request.url.scheme


@lru_cache(maxsize=4_096)
def one(host: str) -> str:
    """The unit that counts as one caller: an IPv4 address, or the network of an IPv6 host."""
    address = _address(host)
    if not isinstance(address, ipaddress.IPv6Address):
        return str(address or host)
    return str(ipaddress.ip_network((address, _OF_ONE), strict=False))


def _forwarded(request: Request) -> Iterator[str]:
    """The addresses in the list, nearest first, up to more than any chain of proxies has."""
    lines = [value.decode("latin-1") for name, value in request.scope["headers"] if name == _FORWARDED_FOR]
    if lines:
        for each in reversed(",".join(lines).rsplit(",", _HOPS)[-_HOPS:]):
            yield _without_port(each.strip())


def _without_port(text: str) -> str:
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


@lru_cache(maxsize=4_096)
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an address; None if invalid. An IPv4 address written as IPv6 becomes IPv4."""
    if len(text) > _LONGEST:
        return None
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found
