"""Parse CLUSTER SHARDS and CLUSTER SLOTS into ranges of slots and their primaries."""

from __future__ import annotations

from typing import Final, NamedTuple, cast

from flowfabric.backends.valkey.wire.connection import Reply
from flowfabric.backends.valkey.wire.url import Host
from flowfabric.errors import BadReply

SLOTS: Final = 16_384

_PRIMARY_ROLES: Final = (b"master", b"primary")
# Hosts that mean "the host that was asked".
_NAMELESS: Final = (None, b"", b"?")


class SlotRange(NamedTuple):
    first: int
    last: int
    primary: Host


def parse_shards(reply: Reply, asked: str, *, tls: bool) -> list[SlotRange] | None:
    """The reply of CLUSTER SHARDS; `asked` is the host that replied. None if the reply is ambiguous.

    Just after a failover a shard lists two primaries and does not say which one owns the slots.
    """
    try:
        ranges = []
        for shard in map(_fields, _items(reply)):
            bounds = _items(shard[b"slots"])
            primaries = _primaries([_fields(node) for node in _items(shard[b"nodes"])])
            if bounds and len(primaries) > 1:
                return None
            if bounds and primaries:
                host = _host_of(primaries[0], asked, tls=tls)
                ranges += [
                    SlotRange(_number(first), _number(last), host)
                    for first, last in zip(bounds[::2], bounds[1::2], strict=True)
                ]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise BadReply(f"unexpected reply to CLUSTER SHARDS: {error!r}") from error
    return ranges


def parse_slots(reply: Reply, asked: str) -> list[SlotRange]:
    """The reply of CLUSTER SLOTS: per range the nodes, the owner first."""
    try:
        ranges = []
        for entry in map(_items, _items(reply)):
            name, port = _items(entry[2])[:2]
            host = asked if name in _NAMELESS else _text(name)
            ranges.append(SlotRange(_number(entry[0]), _number(entry[1]), (host, _number(port))))
    except (TypeError, ValueError, IndexError) as error:
        raise BadReply(f"unexpected reply to CLUSTER SLOTS: {error!r}") from error
    return ranges


def _primaries(nodes: list[dict[bytes, Reply]]) -> list[dict[bytes, Reply]]:
    """The online nodes, if there are any: a lost primary stays listed for a while."""
    primaries = [node for node in nodes if node.get(b"role") in _PRIMARY_ROLES]
    return [node for node in primaries if node.get(b"health", b"online") == b"online"] or primaries


def _host_of(node: dict[bytes, Reply], asked: str, *, tls: bool) -> Host:
    names = (node.get(b"endpoint"), node.get(b"ip"))
    name = next((_text(name) for name in names if name not in _NAMELESS), asked)
    port = node.get(b"tls-port") if tls else None
    return name, _number(port if port is not None else node[b"port"])


def _fields(flat: Reply) -> dict[bytes, Reply]:
    items = _items(flat)
    return dict(zip(cast("list[bytes]", items[::2]), items[1::2], strict=True))


def _items(reply: Reply) -> list[Reply]:
    if not isinstance(reply, list):
        raise TypeError(f"{reply!r} is not a list")
    return reply


def _number(reply: Reply) -> int:
    if not isinstance(reply, int):
        raise TypeError(f"{reply!r} is not a number")
    return reply


def _text(reply: Reply) -> str:
    if not isinstance(reply, bytes):
        raise TypeError(f"{reply!r} is not text")
    return reply.decode()
