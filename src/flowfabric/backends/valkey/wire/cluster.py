"""The cluster client: map slots to primaries, keep one connection to each, follow redirections.

Keys carry a hash tag, so routing is one CRC16 and one list lookup. MOVED, a lost node or a slot without an owner
mark the map as stale; the next command refreshes it first.
"""

from __future__ import annotations

import asyncio
from binascii import crc_hqx
from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

from flowfabric.backends.valkey.wire.client import Node, Server
from flowfabric.backends.valkey.wire.connection import (
    AccessRefused,
    Argument,
    Connection,
    OnMessage,
    Reply,
    ServerReplyError,
)
from flowfabric.backends.valkey.wire.retrying import NOT_ALLOWED, REDIRECTIONS, Retry, SingleFlight
from flowfabric.backends.valkey.wire.slots import SLOTS, SlotRange, parse_shards, parse_slots
from flowfabric.backends.valkey.wire.url import Host, ServerAddress
from flowfabric.config import Settings
from flowfabric.errors import BackendUnavailable, BadReply, UnsupportedServer

_MOST_HOPS: Final = 5  # redirections in a row before we pause: two nodes may point at each other for a moment
_SAYS_NOTHING_ABOUT_SLOTS: Final = frozenset({"LOADING", "BUSY", "TRYAGAIN"})


def key_slot(key: str) -> int:
    """The slot of a key; only the part in the first pair of braces is hashed, unless it is empty."""
    start = key.find("{")
    if start >= 0:
        end = key.find("}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc_hqx(key.encode(), 0) % SLOTS


class _Redirection(NamedTuple):
    host: Host
    asking: bool


class _Primary:
    """The primary of a slot, looked up for every command, so a failover does not strand callers."""

    def __init__(self, client: ClusterClient, slot: int) -> None:
        self._client = client
        self._slot = slot

    async def execute(self, *command: Argument, repeatable: bool = False) -> Reply:
        return await self._client.execute_at(self._slot, command, repeatable=repeatable)


class ClusterClient:
    """Client for a cluster, found through any of the nodes named in the address."""

    topology: Final = "cluster"

    def __init__(self, address: ServerAddress, settings: Settings) -> None:
        self._address = address
        self._settings = settings
        self._nodes: dict[Host, Server] = {}
        self._owners: list[Host | None] = [None] * SLOTS
        self._primaries: dict[Host, int] = {}  # with one slot of each
        self._turn = 0
        self._stale = True
        self._informed: Host | None = None  # the target of the last MOVED: gossip may not have reached others
        self._refreshing = SingleFlight(self._refresh)
        self._closed = False

    def execute(
        self, *command: Argument, key: str | None = None, repeatable: bool = False
    ) -> Coroutine[Any, Any, Reply]:
        return self.execute_at(None if key is None else key_slot(key), command, repeatable=repeatable)

    async def execute_at(self, slot: int | None, command: tuple[Argument, ...], *, repeatable: bool) -> Reply:
        """Run the command on the owner of the slot; with no slot, on any primary."""
        retry: Retry | None = None
        redirection: _Redirection | None = None
        while True:
            node: Server | None = None
            try:
                node = self._node(redirection.host) if redirection else await self._node_for(slot)
                connection = node.live or await node.connection()
                if redirection and redirection.asking:
                    connection.send("ASKING").cancel()  # applies to the next command only; its own reply is ignored
                return await connection.send(*command)
            except (ServerReplyError, BackendUnavailable) as error:
                if self._closed:
                    raise
                retry = retry or self._retry(repeatable=repeatable)
                redirection = await self._recover(error, retry, node)

    async def execute_on_primaries(self, *command: Argument, repeatable: bool = False) -> list[Reply]:
        nodes = await self.primaries()
        calls = (node.execute(*command, repeatable=repeatable) for node in nodes)
        replies = await asyncio.gather(*calls, return_exceptions=True)
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
        return [reply for reply in replies if not isinstance(reply, BaseException)]

    async def primaries(self) -> list[Node]:
        """All primaries, by a fresh map."""
        self._stale = True
        retry: Retry | None = None
        while True:
            try:
                await self._ensure_map()
                return [_Primary(self, slot) for slot in self._primaries.values()]
            except BackendUnavailable as error:
                retry = retry or self._retry(repeatable=True)
                await retry.after(error)

    async def dedicated(
        self,
        *,
        key: str | None = None,
        command_timeout_ms: int | None = None,
        on_message: OnMessage | None = None,
    ) -> Connection:
        slot = None if key is None else key_slot(key)
        retry: Retry | None = None
        while True:
            try:
                node = await self._node_for(slot)
                return await node.open(command_timeout_ms, on_message)
            except BackendUnavailable as error:
                if self._closed:
                    raise
                retry = retry or self._retry(repeatable=True)
                await retry.after(error)
                self._stale = True  # ask which node took over

    async def close(self) -> None:
        self._closed = True
        await self._refreshing.cancel()
        for node in self._nodes.values():
            await node.close()

    def _retry(self, *, repeatable: bool) -> Retry:
        return Retry(str(self._address), self._settings.retry_budget_ms, repeatable=repeatable)

    async def _recover(self, error: Exception, retry: Retry, node: Server | None) -> _Redirection | None:
        """Where to retry; None means wherever the map says. Raises if the command must not be retried."""
        prefix = error.prefix if isinstance(error, ServerReplyError) else ""
        if isinstance(error, ServerReplyError) and prefix in REDIRECTIONS:
            if retry.hop() > _MOST_HOPS:
                await retry.after(error)
            return self._redirection(error, node)
        await retry.after(error)
        if prefix not in _SAYS_NOTHING_ABOUT_SLOTS:
            self._stale = True
        if prefix == "READONLY" and node is not None:
            node.drain()
        return None

    def _redirection(self, error: ServerReplyError, node: Server | None) -> _Redirection:
        try:
            _, slot, target = error.text.split(" ")[:3]
            name, _, port = target.rpartition(":")
            # An empty host means the host that replied.
            host = (name.strip("[]") or (node.address.hosts[0][0] if node else ""), int(port))
            if error.prefix == "MOVED":
                self._owners[int(slot)] = host
                self._stale, self._informed = True, host
        except (ValueError, IndexError) as cause:
            raise BadReply(f"{self._address}: cannot follow {error.text!r}") from cause
        return _Redirection(host, error.prefix == "ASK")

    def _node(self, host: Host) -> Server:
        node = self._nodes.get(host)
        if node is None:
            node = self._nodes[host] = Server(self._address.at(host), self._settings)
        return node

    async def _node_for(self, slot: int | None) -> Server:
        if self._stale:
            await self._ensure_map()
        if slot is None:
            self._turn = (self._turn + 1) % len(self._primaries)
            return self._node(list(self._primaries)[self._turn])
        host = self._owners[slot]
        if host is None:
            self._stale = True
            raise BackendUnavailable(f"{self._address}: slot {slot} has no owner", sent=False)
        return self._node(host)

    async def _ensure_map(self) -> None:
        try:
            await self._refreshing.run()
        except BackendUnavailable:
            if not self._primaries:  # a stale map is better than none: the known owner may still reply
                raise

    async def _refresh(self) -> None:
        if self._closed:
            raise BackendUnavailable(f"{self._address}: the client is closed", sent=False)
        last: Exception | None = None
        for host in self._sources():
            try:
                connection = await self._node(host).connection()
                return self._adopt(await self._ask(connection, host))
            except AccessRefused:
                raise
            except (ServerReplyError, BackendUnavailable) as error:
                if isinstance(error, ServerReplyError) and error.prefix in NOT_ALLOWED:
                    raise AccessRefused(f"{self._address}: {error.text}", sent=False) from error
                last = error
        reason = f"{self._address}: no node returned the slot map; last: {last}"
        raise BackendUnavailable(reason, sent=False) from last

    def _sources(self) -> list[Host]:
        """Nodes to ask for the map: the MOVED target, connected nodes, other known nodes, nodes of the URL."""
        known = sorted(self._nodes, key=lambda host: self._nodes[host].live is None)
        informed = [self._informed] if self._informed else []
        return list(dict.fromkeys([*informed, *known, *self._address.hosts]))

    async def _ask(self, connection: Connection, asked: Host) -> list[SlotRange]:
        tls = self._address.tls is not None
        try:
            ranges = parse_shards(await connection.send("CLUSTER", "SHARDS"), asked[0], tls=tls)
            if ranges is not None:
                return ranges
        except ServerReplyError as error:
            if "cluster support disabled" in error.text:
                raise UnsupportedServer(f"{connection.peer}: not a cluster; use valkey://") from error
            if "unknown" not in error.text.lower():
                raise
        return parse_slots(await connection.send("CLUSTER", "SLOTS"), asked[0])

    def _adopt(self, ranges: list[SlotRange]) -> None:
        if not ranges:
            raise BackendUnavailable(f"{self._address}: no slot has an owner", sent=False)
        owners: list[Host | None] = [None] * SLOTS
        for first, last, host in ranges:
            owners[first : last + 1] = [host] * (last + 1 - first)
        self._owners = owners
        self._primaries = dict(sorted({host: first for first, _, host in ranges}.items()))
        self._stale = False
        self._informed = None
        for host, node in list(self._nodes.items()):
            if host not in self._primaries:
                node.drain()
                if node.quiet:
                    del self._nodes[host]
