"""A partition's event log read straight from the store: entries of several lines, as docs/reference/keys.md says."""

from __future__ import annotations

from typing import Any

NAMES = ("event", "execution_id", "attempt_index", "lease_epoch", "outcome")


def lines_of(entries: Any) -> list[dict[str, str]]:
    """The lines of stream entries, each with its number and time."""
    found = []
    for entry_id, (at_name, at_ms, lines_name, text) in entries:
        assert (at_name, lines_name) == (b"at_ms", b"lines")
        lines = text.decode().split("\n")
        first = int(entry_id.partition(b"-")[0]) - len(lines) + 1
        for number, line in enumerate(lines, first):
            facts = dict(zip(NAMES, line.split(" ", 4), strict=True))
            found.append({"number": str(number), "at_ms": at_ms.decode(), **facts})
    return found


async def read_lines(client: Any, tag: str) -> list[dict[str, str]]:
    key = f"ff:part:{tag}:events"
    return lines_of(await client.execute("XRANGE", key, "-", "+", key=key))
