"""How an execution waits for another one: the names of its waitpoint and of the signal that the engine sends."""

from __future__ import annotations

from typing import Final

from flowfabric.core.ids import ExecutionId

CHILD_ENDED: Final = "child_ended"


def child_key(execution_id: ExecutionId) -> str:
    """The key of the waitpoint at which a watcher waits for this execution."""
    return f"child:{execution_id.uuid}"
