"""Recorded values, the same on every pass: the time, random numbers, and waitpoints."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from flowfabric.client.tasks import payloads
from flowfabric.client.tasks.options import Duration, ms
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.forms import WAITPOINT_STEPS
from flowfabric.core.ids import WaitpointId, WaitpointKey
from flowfabric.errors import Conflict, InvalidInput
from flowfabric.worker.durable.journal import RESERVED, Journal
from flowfabric.worker.durable.occurrences import Occurrence
from flowfabric.worker.durable.signals import Waitpoint
from flowfabric.worker.executors.handler_codec import reader

_WAITPOINT: Final = WAITPOINT_STEPS.removeprefix(RESERVED)
_KEY_MAX_BYTES: Final = limits.STEP_NAME_MAX_BYTES - len(RESERVED + _WAITPOINT)


async def now(journal: Journal) -> datetime:
    """The store's time when the first pass came here, as the worker estimates it."""

    async def make(_: Occurrence) -> bytes:
        return payloads.to_json(journal.services.clock.now_ms())

    return datetime.fromtimestamp(payloads.decode_any(await journal.once("now", "now", make)) / 1000, UTC)


async def chance(journal: Journal) -> float:
    async def make(_: Occurrence) -> bytes:
        return payloads.to_json(random.random())  # noqa: S311 - a handler's dice, no secret

    return float(payloads.decode_any(await journal.once("random", "random", make)))


async def waitpoint(journal: Journal, key: str | None, expires_in: Duration) -> Waitpoint:
    """Make a waitpoint before the wait; signals can be sent to it from now on."""
    expires_in_ms = ms("expires_in", expires_in, low=1)
    journal.check("ctx.waitpoint")
    if key is not None:
        limits.label("key", key, 1, _KEY_MAX_BYTES)
        if key in journal.open_waitpoints or key in journal.making:
            problem = "already names an open waitpoint; wait on it or choose another key"
            raise InvalidInput("key", key, problem)

    async def make(at: Occurrence) -> bytes:
        return payloads.to_json(await _make_waitpoint(journal, at, key, expires_in_ms))

    journal.making.add(key)
    try:
        record = await journal.once("waitpoint", _WAITPOINT + (key or ""), make)
        made: Waitpoint = reader(Waitpoint, "waitpoint")(record)
        journal.waitpoints[made.key] = made
    finally:
        journal.making.discard(key)
    return made


async def _make_waitpoint(journal: Journal, at: Occurrence, key: str | None, expires_in_ms: int) -> Waitpoint:
    """The id is deterministic: after a crash before its record, the same waitpoint is found again."""
    usual = WaitpointId(str(uuid5(NAMESPACE_URL, f"{journal.attempt.execution_id}/{at}")))
    try:
        return await _create(journal, usual, key, expires_in_ms)
    except Conflict as refusal:
        if refusal.code != "waitpoint_already_exists":
            raise
        return await _create(journal, WaitpointId.new(), key, expires_in_ms)  # used before a replay


async def _create(journal: Journal, waitpoint_id: WaitpointId, key: str | None, expires_in_ms: int) -> Waitpoint:
    attempt, services = journal.attempt, journal.services
    args = c.CreatePendingWaitpointArgs(
        execution_id=attempt.execution_id,
        fence=attempt.fence,
        attempt_index=attempt.attempt_index,
        waitpoint_id=waitpoint_id,
        waitpoint_key=WaitpointKey(key or f"wpk:{waitpoint_id}"),
        expires_in_ms=expires_in_ms,
    )
    made = await journal.ask(services.backend.create_pending_waitpoint(args))
    issued = (made.waitpoint_id, made.waitpoint_key, made.waitpoint_token)
    return Waitpoint(attempt.execution_id, *issued, services.callback_url)
