"""Checks of the Valkey server: reachable, version, persistence, memory, clock."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Final

from flowfabric.backends.valkey.library.bundle import bundle
from flowfabric.backends.valkey.library.loader import Library
from flowfabric.backends.valkey.wire.client import Client, Node
from flowfabric.backends.valkey.wire.connection import ServerReplyError
from flowfabric.backends.valkey.wire.open_client import open_client
from flowfabric.cli.doctor.checks import Check, fail, ok, warn
from flowfabric.cli.parsing import span_text
from flowfabric.cli.running import place_of
from flowfabric.config import Settings

_PINGS: Final = 20
_SLOW_MS: Final = 5.0
_SKEW_WARN_MS: Final = 1_000
_SKEW_FAIL_MS: Final = 60_000


async def check_server(settings: Settings) -> list[Check]:
    """Check the server without writing to it; raises FlowFabricError when it is unreachable."""
    client = await open_client(settings)
    try:
        nodes = await client.primaries()
        is_ours = settings.url.startswith("embedded:")
        checks = [await _connection(client, settings, len(nodes))]
        for node in nodes:
            checks += await _described(node, is_ours=is_ours)
            checks += [await _library(client, node), await _clock(node)]
    finally:
        await client.close()
    return _once_each(checks)


def _once_each(checks: list[Check]) -> list[Check]:
    """Without duplicates: the nodes of a cluster mostly report the same."""
    return list(dict.fromkeys(checks))


async def _connection(client: Client, settings: Settings, nodes: int) -> Check:
    times = []
    for _ in range(_PINGS):
        began = time.perf_counter()
        await client.execute_on_primaries("PING", repeatable=True)
        times.append((time.perf_counter() - began) * 1000 / nodes)
    middle = statistics.median(times)
    found = (
        f"{place_of(settings)}, {nodes} primar{'y' if nodes == 1 else 'ies'}, a round trip takes {span_text(middle)}"
    )
    if middle > _SLOW_MS:
        return warn("connection", found, "move workers and clients closer to the store")
    return ok("connection", found)


async def _described(node: Node, *, is_ours: bool) -> list[Check]:
    """Checks of the server's own report, INFO."""
    try:
        info = await _info(node)
    except ServerReplyError as error:
        return [warn("server", f"INFO is refused: {error}", "allow INFO for this user so that it can be checked")]
    return [_version(info), *_persistence(info, await _fsync(node), is_ours), _memory(info)]


async def _info(node: Node) -> dict[str, str]:
    reply = await node.execute("INFO", "everything", repeatable=True)
    text = reply.decode() if isinstance(reply, bytes) else str(reply)
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith("#"))


def _version(info: dict[str, str]) -> Check:
    if version := info.get("valkey_version"):
        return ok("server", f"Valkey {version}")
    return ok("server", f"Redis {info.get('redis_version', 'of an unknown version')}")


async def _library(client: Client, node: Node) -> Check:
    source = bundle()
    version = await Library(client, source).version_on(node)
    if version is None:
        return warn("library", f"not loaded; this program has {source.version}", "any client loads it")
    if version < source.version:
        return warn("library", f"{version}, older than this program's {source.version}", "any client replaces it")
    if version > source.version:
        return warn("library", f"{version}, newer than this program's {source.version}", "upgrade flowfabric here")
    return ok("library", str(version))


async def _fsync(node: Node) -> str:
    """How often the append-only file is flushed to disk; empty for managed servers that hide it."""
    try:
        reply = await node.execute("CONFIG", "GET", "appendfsync", repeatable=True)
    except ServerReplyError:
        return ""
    words = [part for pair in reply.items() for part in pair] if isinstance(reply, dict) else reply
    return words[-1].decode() if isinstance(words, list) and words and isinstance(words[-1], bytes) else ""


def _persistence(info: dict[str, str], fsync: str, is_ours: bool) -> Iterator[Check]:
    """An embedded server survives a killed process, not a power cut, so its fsync setting is not judged."""
    if info.get("aof_enabled") != "1":
        yield warn("persistence", "no append-only file", "set `appendonly yes`, or a crash loses recent changes")
    elif info.get("aof_last_write_status", "ok") != "ok":
        yield fail("persistence", "the append-only file cannot be written", "check the server's disk and log")
    elif fsync == "no" and not is_ours:
        yield warn("persistence", "append-only file, fsync no", "set `appendfsync everysec`, or a power cut loses work")
    else:
        yield ok("persistence", f"append-only file, fsync {fsync or 'unknown'}")
    if info.get("rdb_last_bgsave_status", "ok") != "ok":
        yield warn("snapshot", "the last one failed", "check the server's disk, memory and log")


def _memory(info: dict[str, str]) -> Check:
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    policy = info.get("maxmemory_policy", "noeviction")
    found = f"{used / 1e6:.0f} MB used" + (f" of {most / 1e6:.0f} MB" if most else "")
    if most and policy != "noeviction":
        return fail("memory", f"{found}, {policy}", "set `maxmemory-policy noeviction`, or executions are lost")
    if most and used > 0.9 * most:
        return warn("memory", found, "give the server more memory, or `flowfabric trim`")
    return ok("memory", found)


async def _clock(node: Node) -> Check:
    before = time.time()
    try:
        reply = await node.execute("TIME", repeatable=True)
    except ServerReplyError as error:
        return warn("clock", f"TIME is refused: {error}", "allow TIME for this user")
    after = time.time()
    seconds, micros = (int(part) for part in reply)  # type: ignore[union-attr, arg-type]
    ahead_ms = (seconds + micros / 1e6 - (before + after) / 2) * 1000
    found = f"{span_text(abs(ahead_ms))} {'ahead of' if ahead_ms > 0 else 'behind'} this machine"
    advice = "synchronise the clocks: the server's clock decides when a given time is reached"
    if abs(ahead_ms) > _SKEW_FAIL_MS:
        return fail("clock", found, advice)
    if abs(ahead_ms) > _SKEW_WARN_MS:
        return warn("clock", found, advice)
    return ok("clock", f"agrees within {max(1, round(abs(ahead_ms)))} ms")
