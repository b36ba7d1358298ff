"""Bringing an execution into any situation of the table, through the ports."""

from __future__ import annotations

from typing import Any

from flowfabric.core import contracts as c
from flowfabric.core.conditions import ByName, Single
from flowfabric.core.ids import WaitpointKey
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.core.rules.execution.transitions import (
    BLOCKED,
    OF_MEMBERS,
    SITUATIONS,
    SUSPENDED,
    UNATTEMPTED,
    Situation,
)
from tests.conformance.driver import BACKOFF, DEADLINE_IN, RETRYING, TTL, Driver, Subject
from tests.conformance.linking import apply_edge, link
from tests.conformance.suspending import KID, SECRET, Suspender

SUSPENSION_TIMEOUT = 10_000
AWAITED, LATER = WaitpointKey("reply"), WaitpointKey("later")
NAME = "approved"

# These look at waitpoints, which an execution has from its first attempt on.
_OF_EDGES = ("apply_dependency_to_child", "resolve_dependency", "promote_blocked_to_eligible")
_OF_WAITPOINTS = ("deliver_signal", "signal_execution", "close_waitpoint")


async def reach(
    driver: Driver,
    situation: Situation,
    *,
    behavior: TimeoutBehavior = TimeoutBehavior.FAIL,
    has_waited: bool = False,
    is_member: bool = False,
    **create: Any,
) -> Subject:
    """behavior: at the time-out, if it is suspended. has_waited: it has a suspension behind it, a waitpoint ahead.

    is_member: of a flow, where an edge from another one to it is staged.
    """
    waits = _Waits(driver, behavior)
    if situation is Situation.DELAYED:
        x = await driver.create(delay_until=driver.clock.now_ms + BACKOFF, **create)
    else:
        x = await driver.create(**create)
    if situation in OF_MEMBERS or (is_member and situation is not Situation.WAITING_REPLAY):
        await link(driver, x)
    if has_waited or situation in (*SUSPENDED, Situation.RESUME_DELAYED):
        await waits.have_secret(x)
    if situation in BLOCKED:
        await driver.block(x, SITUATIONS[situation].blocking_reason)
    elif situation in OF_MEMBERS:
        await apply_edge(driver, x)
        if situation is Situation.SKIPPED:
            assert x.upstream is not None
            await driver.cancel(x.upstream)
    elif situation not in UNATTEMPTED:
        await driver.run(x)
        if has_waited:
            await waits.once(x)
        await _from_active(driver, waits, x, situation)
    if is_member and situation is Situation.WAITING_REPLAY:  # which would have waited for all edges there are
        await link(driver, x)
    return x


async def reach_for(driver: Driver, operation: str, situation: Situation) -> Subject:
    """A fresh execution in this situation, with what the operation of the table needs there."""
    name, _, variant = operation.partition(":")
    given: dict[str, Any] = {"policy": RETRYING} if variant.endswith("_retry") else {}
    if name == "expire_suspension":
        given["behavior"] = TimeoutBehavior(variant)
    x = await reach(driver, situation, has_waited=name in _OF_WAITPOINTS, is_member=name in _OF_EDGES, **given)
    waits = _Waits(driver)
    await waits.have_secret(x)
    if operation == "suspend_execution:early" and situation is Situation.ACTIVE:
        x.pending = await waits.suspender.pending(x, LATER)
        await waits.suspender.signal(x, x.pending, NAME)
    return x


class _Waits:
    """The suspensions on the way to a situation."""

    def __init__(self, driver: Driver, behavior: TimeoutBehavior = TimeoutBehavior.FAIL) -> None:
        self.driver = driver
        self.suspender = Suspender(driver)
        self._behavior = behavior

    async def have_secret(self, x: Subject) -> None:
        await self.suspender.rotate(x, KID, SECRET.reveal(), 0)

    async def begin(self, x: Subject, behavior: TimeoutBehavior | None = None) -> None:
        result = await self.suspender.suspend(
            x, Single(AWAITED, ByName(NAME)), c.FreshWaitpoint.new(AWAITED), timeout_ms=SUSPENSION_TIMEOUT,
            timeout_behavior=behavior or self._behavior,
        )  # fmt: skip
        x.waitpoint = result.waitpoints[0]

    async def once(self, x: Subject) -> None:
        """Wait, go on, and have a waitpoint ready for the next time."""
        await self.begin(x)
        await self.suspender.resume(x)
        await self.driver.grant(x)
        await self.driver.claim_resumed(x)
        x.pending = await self.suspender.backend.create_pending_waitpoint(
            self.suspender.pending_args(x, LATER, expires_in_ms=2 * DEADLINE_IN)
        )

    async def until_a_human_is_asked(self, x: Subject) -> None:
        await self.begin(x, TimeoutBehavior.ESCALATE)
        await self.driver.clock.advance(SUSPENSION_TIMEOUT)
        await self.driver.backend.expire_suspension(c.ExpireSuspensionArgs(execution_id=x.execution_id))


async def _from_active(driver: Driver, waits: _Waits, x: Subject, situation: Situation) -> None:  # noqa: C901 - a flat table
    match situation:
        case Situation.RETRY_BACKOFF | Situation.WAITING_RETRY:
            await driver.fail(x, retry=True)
        case Situation.INTERRUPTED_DELAYED:
            await driver.delay(x, driver.clock.now_ms + BACKOFF)
        case Situation.INTERRUPTED_WAITING:
            await driver.delay(x, driver.clock.now_ms)
        case Situation.RESUME_DELAYED:
            await waits.begin(x)
            await waits.suspender.resume(x, resume_delay_ms=BACKOFF)
        case Situation.SUSPENDED:
            await waits.begin(x)
        case Situation.ESCALATED:
            await waits.until_a_human_is_asked(x)
        case Situation.WAITING_CHILDREN:
            await (driver.open_dependency(x) if x.edge_id is None else apply_edge(driver, x))
            await driver.move_to_waiting_children(x)
        case Situation.LEASE_EXPIRED:
            await driver.clock.advance(TTL)
            await driver.mark_expired(x)
        case Situation.LEASE_REVOKED:
            await driver.revoke(x)
        case Situation.COMPLETED | Situation.WAITING_REPLAY:
            await driver.complete(x)
        case Situation.FAILED:
            await driver.fail(x)
        case Situation.CANCELLED:
            await driver.cancel(x)
        case Situation.EXPIRED:
            await driver.clock.advance(DEADLINE_IN)
            await driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE)
    if situation is Situation.WAITING_RETRY:
        await driver.clock.advance(BACKOFF)
        await driver.promote(x)
    if situation is Situation.WAITING_REPLAY:
        await driver.replay(x)
