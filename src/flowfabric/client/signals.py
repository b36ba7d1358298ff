"""Send signals: by a link with a token, or directly to an execution of a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final, cast

from flowfabric import tracing
from flowfabric.backends.ports import EngineBackend
from flowfabric.client.tasks import payloads
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.conditions import signal_name
from flowfabric.core.contracts.events import END, ENDINGS
from flowfabric.core.ids import ExecutionId, SignalId, WaitpointKey
from flowfabric.core.links import SignalLink
from flowfabric.errors import Conflict, InvalidInput

_NOT_SIGNALABLE: Final = "target_not_signalable"
_ENDED: Final = frozenset(ENDINGS.values())


def by_link(
    link: SignalLink | str,
    payload: object,
    *,
    name: str | None,
    source: str,
    idempotency_key: str | None,
    source_type: str = "",
) -> c.DeliverSignalArgs:
    """A signal to the waitpoint of a link; `name` overrides the link's own.

    A link accepts only declared signals, because anyone may hold it.
    """
    if not isinstance(link, SignalLink):
        link = SignalLink.parse(link)
    name = name or link.signal_name
    if name is None:
        raise InvalidInput("name", None, "must be given, because the link has no signal name")
    return c.DeliverSignalArgs(
        execution_id=link.execution_id,
        waitpoint_id=link.waitpoint_id,
        waitpoint_token=link.token,
        source_type=source_type,
        declared_only=True,
        **_content(name, payload, source, idempotency_key),
    )


def to_execution(
    execution_id: ExecutionId,
    name: str,
    payload: object,
    *,
    waitpoint: str | None,
    source: str,
    idempotency_key: str | None,
    source_type: str = "",
) -> c.SignalExecutionArgs:
    """A signal to the waitpoint with this key, or to the one that takes a signal of this name."""
    return c.SignalExecutionArgs(
        execution_id=execution_id,
        waitpoint_key=None if waitpoint is None else WaitpointKey(waitpoint),
        source_type=source_type,
        **_content(name, payload, source, idempotency_key),
    )


def _content(name: str, payload: object, source: str, idempotency_key: str | None) -> dict[str, Any]:
    data = None if payload is None else payloads.encode(payload, "payload")
    return {
        "signal_id": SignalId.new(),
        "signal_name": name,
        "source_identity": source,
        "payload": data,
        "payload_encoding": None if data is None else payloads.ENCODING,
        "idempotency_key": idempotency_key,
        "correlation_id": tracing.current_parent(),
    }


async def link_to(
    backend: EngineBackend, execution_id: ExecutionId, name: str | None, waitpoint: str | None, base: str
) -> str:
    """The link of the only open waitpoint, or of the one with this key."""
    args = c.ListPendingWaitpointsArgs(execution_id=execution_id, limit=limits.SCAN_LIMIT_MAX)
    found = (await backend.list_pending_waitpoints(args)).entries
    wanted = [each for each in found if waitpoint in (None, each.waitpoint_key)]
    if len(wanted) != 1:
        keys = ", ".join(each.waitpoint_key for each in found) or "none"
        raise InvalidInput("waitpoint", waitpoint, f"must be the key of one open waitpoint; open: {keys}")
    read = c.ReadWaitpointTokenArgs(execution_id=execution_id, waitpoint_id=wanted[0].waitpoint_id)
    issued = await backend.read_waitpoint_token(read)
    link = SignalLink(
        execution_id=execution_id,
        waitpoint_id=issued.waitpoint_id,
        token=issued.waitpoint_token,
        signal_name=None if name is None else signal_name("name", name),
    )
    return link.url(base)


async def signal_when_taken(backend: EngineBackend, args: c.SignalExecutionArgs, wait_ms: int) -> c.SignalOutcome:
    """Deliver a signal as soon as a waitpoint takes it. An execution that has ended refuses it.

    Every try has the same id, so the signal counts once.
    """
    until = asyncio.get_running_loop().time() + wait_ms / 1000
    # Read the log's end before the first try: a suspension that the try misses comes after it.
    place = await backend.read_events(c.ReadEventsArgs(execution_id=args.execution_id, cursor=END))
    if outcome := await _taken(backend, args):
        return outcome
    events = cast("AsyncGenerator[c.Event, None]", backend.tail_events(args.execution_id, cursor=place.cursor))
    async with aclosing(events):
        while True:
            try:
                async with asyncio.timeout_at(until):
                    event = await anext(events, None)
            except TimeoutError:
                return await _last_try(backend, args, wait_ms)
            if event is None:  # it has ended; the refusal says how
                return await backend.signal_execution(args)
            if event.event == c.EventKind.SUSPENDED and (outcome := await _taken(backend, args)):
                return outcome


async def _taken(backend: EngineBackend, args: c.SignalExecutionArgs) -> c.SignalOutcome | None:
    try:
        return await backend.signal_execution(args)
    except Conflict as refusal:
        if not _is_early(refusal):
            raise
        return None


async def _last_try(backend: EngineBackend, args: c.SignalExecutionArgs, wait_ms: int) -> c.SignalOutcome:
    """Try again: a waitpoint created before its wait opens without an event."""
    try:
        return await backend.signal_execution(args)
    except Conflict as refusal:
        if not _is_early(refusal):
            raise
        where = "" if args.waitpoint_key is None else f" at {str(args.waitpoint_key)!r}"
        raise TimeoutError(
            f"{args.execution_id.short} is {refusal.details.get('state')} after {wait_ms / 1000:g} seconds, "
            f"and no waitpoint{where} takes the signal {args.signal_name!r}; signal again, or see waitpoints() for the "
            "open ones"
        ) from None


def _is_early(refusal: Conflict) -> bool:
    """Whether no waitpoint takes the signal yet. An ended execution never will."""
    return refusal.code == _NOT_SIGNALABLE and refusal.details.get("state") not in _ENDED
