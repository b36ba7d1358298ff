"""Read the log records of an execution, and follow them until it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from msgspec.structs import replace

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.core.log_levels import level_number
from flowfabric.core.states import PublicState
from flowfabric.errors import ExecutionNotFound

_PAGE: Final = 500
# A worker sends records every 0.2 s, so a reader that looks this often is hardly later. While nothing comes, it looks
# less often.
_LOOK_AGAIN_S: Final = 0.25
_LOOK_AT_LEAST_EVERY_S: Final = 1.0
_LAST_LOOKS: Final = 2  # after the end: the last records are sent beside it

_ENDED: Final = frozenset(
    {
        PublicState.COMPLETED,
        PublicState.FAILED,
        PublicState.CANCELLED,
        PublicState.EXPIRED,
        PublicState.SKIPPED,
    }
)


def wanted(
    execution_id: ExecutionId, *, after: str | None = None, attempt: int | None = None, level: str = "debug"
) -> c.ReadLogsArgs:
    """The arguments of a reader that takes records of one attempt or all, from a level on."""
    return c.ReadLogsArgs(
        execution_id=execution_id,
        cursor=after,
        attempt_index=attempt,
        min_level=0 if level == "debug" else level_number("level", level),
        limit=_PAGE,
    )


async def logs(
    backend: EngineBackend, args: c.ReadLogsArgs, *, follow: bool = False
) -> AsyncGenerator[c.LogRecord, None]:
    """The records so far, oldest first; with `follow` also new ones, until the execution has ended."""
    looks_left, pause = _LAST_LOOKS, _LOOK_AGAIN_S
    while True:
        page = await backend.read_logs(args)
        for each in page.records:
            yield each
        args = replace(args, cursor=page.cursor)
        if page.more:
            continue
        if not follow or looks_left == 0:
            return
        pause = _LOOK_AGAIN_S if page.records else min(1.5 * pause, _LOOK_AT_LEAST_EVERY_S)
        if await _has_ended(backend, args.execution_id):
            looks_left, pause = looks_left - 1, _LOOK_AGAIN_S
        await asyncio.sleep(pause)


async def _has_ended(backend: EngineBackend, execution_id: ExecutionId) -> bool:
    state = await backend.get_execution_state(execution_id)
    if state is None:
        raise ExecutionNotFound(f"{execution_id}: no such execution", execution_id=str(execution_id))
    return state in _ENDED
