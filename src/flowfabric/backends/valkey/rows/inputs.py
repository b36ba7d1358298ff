"""Decode the inputs of flow members: rows that describe them, followed by the upstream results."""

from __future__ import annotations

from flowfabric.backends.valkey.wire.client import Reply
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.core.states import TerminalOutcome
from flowfabric.errors import BadReply


def read_inputs(rows: Reply, results: bytes) -> list[c.ExecutionInput]:
    """Decode rows of lua/lib/flow/inputs.lua."""
    if not isinstance(rows, list):
        raise BadReply(f"inputs: expected a list of rows, got {rows!r:.200}")
    found: list[c.ExecutionInput] = []
    at = 0
    for row in rows:
        ref, upstream, outcome, encoding, length = row  # type: ignore[misc]
        size = int(length)  # type: ignore[arg-type]
        payload = None if size < 0 else results[at : at + size]
        at += max(size, 0)
        found.append(
            c.ExecutionInput(
                data_passing_ref=_text(ref),
                upstream_execution_id=ExecutionId(_text(upstream)),
                outcome=TerminalOutcome(_text(outcome)),
                payload=payload,
                encoding=_text(encoding) or None,
            )
        )
    return found


def size_of(rows: Reply) -> int:
    """The total size of the results of these rows."""
    return sum(max(int(row[4]), 0) for row in rows) if isinstance(rows, list) else 0  # type: ignore[arg-type,index,misc]


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
