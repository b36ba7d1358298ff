"""The layout of a store: a mark beside the partition counts. Stores of other programs are refused.

The Rust original uses the same key names for records with another layout. Neither program can read the other's data,
and loading either function library replaces the other's. A store without our mark is therefore inspected on every
primary before the first write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flowfabric.backends.valkey.library.calls import at_once
from flowfabric.backends.valkey.library.loader import Library, is_foreign
from flowfabric.backends.valkey.wire.client import Client, Node
from flowfabric.backends.valkey.wire.connection import ServerReplyError
from flowfabric.errors import BackendUnavailable, BadReply, FlowFabricError, Unavailable

# Version of the layout; it changes when a release cannot read the records of the one before.
LAYOUT: Final = "python-1"
# The original writes this field into every execution record; we never do.
FOREIGN_FIELD: Final = "partition_id"

# Indexes that are sets in the original and sorted sets here.
_INDEXES: Final = ("all_executions", "flow_index")
_USUAL_PARTITIONS: Final = 256
# How many keys and records to inspect beyond the indexes.
_PAGE, _MOST_PAGES, _MOST_RECORDS = 1_000, 1_000, 20


async def refuse_another_layout(library: Library, record: Mapping[str, str], *, force: bool) -> None:
    """Raise `layout_mismatch` unless the store is ours or empty. record: the hash that holds the partition counts."""
    mark = record.get("layout")
    if mark == LAYOUT:
        return
    if mark is not None:
        problem = f"the store has the layout {mark!r}, this release knows {LAYOUT!r}"
        raise Unavailable(f"{problem}; open it with the release that made it", code="layout_mismatch", layout=mark)
    if "lane_shards" in record:  # ours, written before the mark existed
        return
    client = library.client
    versions = [await library.version_on(node) for node in await client.primaries()]
    foreign = next(filter(is_foreign, versions), None)
    found = await _foreign_index(client, record) or await _foreign_record(client)
    if found is not None:
        raise _refuse_data(found, foreign)
    if foreign is not None and not force:
        raise _refuse_library(foreign)


def _refuse_data(found: str, version: int | None) -> FlowFabricError:
    library = f", whose function library on this server has version {version}" if version is not None else ""
    return Unavailable(
        f"the store holds data of the Rust original{library}: {found}. Nothing was changed. Use another database "
        "number, as in valkey://host:6379/1, or an empty store. Functions belong to the whole server: one that the "
        "original still uses will not do",
        code="layout_mismatch",
        found=found,
        library_version=version,
    )


def _refuse_library(version: int) -> FlowFabricError:
    return Unavailable(
        f"the server has the function library of the Rust original, version {version}, which ours would replace for "
        "all its databases. Nothing was changed. Use another server; or, when no program uses that library any more, "
        "set FLOWFABRIC_FORCE_LIBRARY_LOAD=1 once",
        code="layout_mismatch",
        library_version=version,
    )


async def _foreign_index(client: Client, record: Mapping[str, str]) -> str | None:
    """An index with the layout of the original."""
    given = record.get("num_flow_partitions", "")
    tags = [f"{{fp:{index}}}" for index in range(int(given) if given.isdigit() else _USUAL_PARTITIONS)]
    keys = [f"ff:idx:{tag}:{name}" for name in _INDEXES for tag in tags]
    kinds = await at_once(client.execute("TYPE", key, key=key, repeatable=True) for key in keys)
    sets = (key for key, kind in zip(keys, kinds, strict=True) if kind == b"set")
    key = next(sets, None)
    return f"{key} is a set" if key else None


async def _foreign_record(client: Client) -> str | None:
    """A record found by scanning keys. Without the right to scan, the indexes must do."""
    try:
        for node in await client.primaries():
            for key in await _records(node):
                if await _is_foreign_record(client, key):
                    return f"{key.decode(errors='replace')} has a field {FOREIGN_FIELD}"
    except (ServerReplyError, BackendUnavailable) as error:
        if "no permissions" not in str(error):
            raise
    return None


async def _is_foreign_record(client: Client, key: bytes) -> bool:
    """A key of another type is a damaged record; it says nothing about the layout."""
    try:
        text = key.decode(errors="replace")
        return bool(await client.execute("HEXISTS", key, FOREIGN_FIELD, key=text, repeatable=True))
    except ServerReplyError as error:
        if error.prefix != "WRONGTYPE":
            raise
        return False


async def _records(node: Node) -> list[bytes]:
    """A sample of execution record keys."""
    found: list[bytes] = []
    cursor = b"0"
    for _ in range(_MOST_PAGES):
        listing = ("SCAN", cursor, "MATCH", "ff:exec:*:core", "COUNT", _PAGE)
        reply = await node.execute(*listing, repeatable=True)
        if not isinstance(reply, list) or not isinstance(reply[0], bytes) or not isinstance(reply[1], list):
            raise BadReply(f"unexpected reply to SCAN: {reply!r:.100}")
        cursor = reply[0]
        found += [key for key in reply[1] if isinstance(key, bytes)]
        if cursor == b"0" or len(found) >= _MOST_RECORDS:
            break
    return found[:_MOST_RECORDS]
