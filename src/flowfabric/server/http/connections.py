"""All open connections of a server: their limits, in total and per peer, and their timeouts.

Without room, the connection that has waited longest for its next request is closed: a client that still needs it opens
another. Connections with a request in progress stay open.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from flowfabric.errors import FlowFabricError, Limited
from flowfabric.server.access.peers import Peers, one
from flowfabric.server.settings import ServerSettings

if TYPE_CHECKING:
    from flowfabric.server.http.connection import Connection

_MOST: Final = 10_000
_FEWEST: Final = 16
_OWN_FILES: Final = 64  # files the process itself needs: the store, the listening socket, logs
_LOOK_S: Final = 1.0  # how often connections are checked; more often with a short timeout


class Refusal(NamedTuple):
    """The response a connection gets before it is closed."""

    status: int
    error: FlowFabricError


class Connections:
    """The connections of one server. A task checks them while there are any."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.most = settings.connections or _room()
        self.most_per_peer = settings.connections_per_peer or max(1, self.most // 2)
        self.waiting: dict[Connection, None] = {}  # waiting for a request, the longest wait first
        self._open: set[Connection] = set()
        self._of_peer: Counter[str] = Counter()
        self._peers = Peers(settings.proxies)
        shortest = min(settings.header_timeout_ms, settings.body_timeout_ms, settings.write_timeout_ms)
        self._pause_s = min(_LOOK_S, shortest / 4_000)
        self._is_looking = False

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, connection: Connection) -> Refusal | None:
        """Count a new connection, closing others to make room; or return the reason for a refusal."""
        host = connection.client[0] if connection.client else ""
        connection.peer = "" if self._peers.is_proxy(host) else one(host)
        if connection.peer and self._of_peer[connection.peer] >= self.most_per_peer and not self._let_go(connection):
            return _busy(429, f"{self.most_per_peer} connections of your address are busy")
        if len(self._open) >= self.most and not self._let_go():
            return _busy(503, f"all {self.most} connections of the server are busy")
        self._open.add(connection)
        self._of_peer[connection.peer] += 1
        if not self._is_looking:
            self._look_later()
        return None

    def leave(self, connection: Connection) -> None:
        """The connection is closed, or about to be."""
        self.waiting.pop(connection, None)
        if connection in self._open:
            self._open.remove(connection)
            self._of_peer[connection.peer] -= 1
            if not self._of_peer[connection.peer]:
                del self._of_peer[connection.peer]

    def wait(self, connection: Connection) -> None:
        """It waits for its next request from now on; proxies close their own connections."""
        if connection.peer and connection in self._open:
            self.waiting.pop(connection, None)
            self.waiting[connection] = None

    def _let_go(self, like: Connection | None = None) -> bool:
        """Close the connection that waits longest, of the same peer if given; otherwise one that is sending a body."""
        for each in chain(self.waiting, (each for each in self._open if each.is_receiving)):
            if each.peer and (like is None or each.peer == like.peer):
                self.leave(each)
                each.transport.abort()
                return True
        return False

    def _look_later(self) -> None:
        self._is_looking = True
        asyncio.get_running_loop().call_later(self._pause_s, self._look)

    def _look(self) -> None:
        """End connections that have waited too long."""
        now = asyncio.get_running_loop().time()
        for each in tuple(self._open):
            each.look(now)
        self._is_looking = False
        if self._open:
            self._look_later()


def _busy(status: int, said: str) -> Refusal:
    return Refusal(status, Limited(said, code="too_many_connections"))


def _room() -> int:
    """The limit of open files of the process, minus its own."""
    try:
        import resource  # noqa: PLC0415 - only some systems have it
    except ImportError:
        return _MOST
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MOST
    return max(_FEWEST, min(_MOST, files - max(_OWN_FILES, files // 8)))
