"""Suspending through the ports: a worker that waits, and whoever signals to it."""

from __future__ import annotations

from typing import Any

from flowfabric.core import contracts as c
from flowfabric.core.conditions import ByName, ResumeCondition, Single
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import SignalId, SuspensionId, WaitpointId, WaitpointKey, WaitpointToken
from flowfabric.core.tokens import Kid, SecretHex
from tests.conformance.driver import Driver, Subject
from tests.stores.batched import partition_of

KID, SECRET = Kid("k1"), SecretHex("ab" * 32)
EXPIRES = 60_000


def fresh(key: str = "reply") -> c.FreshWaitpoint:
    return c.FreshWaitpoint.new(key)


def by_name(name: str = "approved", key: str = "reply") -> Single:
    return Single(WaitpointKey(key), ByName(name))


class Suspender:
    """A driver whose executions can wait; the store has a secret."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.backend = driver.backend
        self.probe = driver.probe

    async def seed(self, kid: Kid = KID, secret: SecretHex = SECRET) -> c.SeedOutcome:
        return await self.backend.seed_waitpoint_hmac_secret(c.SeedWaitpointHmacSecretArgs(kid=kid, secret_hex=secret))

    async def rotate(
        self, x: Subject, kid: str, secret: str, grace_ms: int, *, end_graces: bool = False
    ) -> c.RotateWaitpointHmacSecretOutcome:
        args = c.RotateWaitpointHmacSecretArgs(
            partition=partition_of(x.execution_id), new_kid=Kid(kid), new_secret_hex=SecretHex(secret),
            grace_ms=grace_ms, end_graces=end_graces,
        )  # fmt: skip
        return await self.backend.rotate_waitpoint_hmac_secret(args)

    async def kids(self, x: Subject) -> c.WaitpointHmacKids:
        args = c.ListWaitpointHmacKidsArgs(partition=partition_of(x.execution_id))
        return await self.backend.list_waitpoint_hmac_kids(args)

    async def running(self, **create: Any) -> Subject:
        x = await self.driver.create(**create)
        await self.driver.grant_and_claim(x)
        return x

    def args(
        self, x: Subject, condition: ResumeCondition | None = None, *waitpoints: c.WaitpointBinding, **overrides: Any
    ) -> c.SuspendExecutionArgs:
        given: dict[str, Any] = {
            "execution_id": x.execution_id, "fence": x.fence, "attempt_index": x.attempt_index,
            "suspension_id": SuspensionId.new(), "waitpoints": waitpoints or (fresh(),),
            "resume_condition": condition or by_name(), **overrides,
        }  # fmt: skip
        return c.SuspendExecutionArgs(**given)

    async def suspend(
        self, x: Subject, condition: ResumeCondition | None = None, *waitpoints: c.WaitpointBinding, **overrides: Any
    ) -> c.ExecutionSuspended:
        result = await self.backend.suspend_execution(self.args(x, condition, *waitpoints, **overrides))
        assert isinstance(result, c.ExecutionSuspended), result
        return result

    async def suspended(self, **overrides: Any) -> tuple[Subject, c.IssuedWaitpoint]:
        """One that waits for `approved`, and where."""
        x = await self.running()
        return x, (await self.suspend(x, **overrides)).waitpoints[0]

    def pending_args(self, x: Subject, key: str = "reply", **overrides: Any) -> c.CreatePendingWaitpointArgs:
        given: dict[str, Any] = {
            "execution_id": x.execution_id, "fence": x.fence, "attempt_index": x.attempt_index,
            "waitpoint_id": WaitpointId.new(), "waitpoint_key": key, "expires_in_ms": EXPIRES, **overrides,
        }  # fmt: skip
        return c.CreatePendingWaitpointArgs(**given)

    async def pending(self, x: Subject, key: str = "reply") -> c.PendingWaitpointCreated:
        return await self.backend.create_pending_waitpoint(self.pending_args(x, key))

    async def signal(
        self, x: Subject, at: c.IssuedWaitpoint | c.PendingWaitpointCreated, name: str = "approved", **overrides: Any
    ) -> c.SignalOutcome:
        given: dict[str, Any] = {
            "execution_id": x.execution_id, "waitpoint_id": at.waitpoint_id, "waitpoint_token": at.waitpoint_token,
            "signal_id": SignalId.new(), "signal_name": name, **overrides,
        }  # fmt: skip
        return await self.backend.deliver_signal(c.DeliverSignalArgs(**given))

    async def send(self, x: Subject, name: str = "approved", **overrides: Any) -> c.SignalOutcome:
        """The same without a token, to whichever waitpoint takes it."""
        given: dict[str, Any] = {
            "execution_id": x.execution_id, "signal_id": SignalId.new(), "signal_name": name, **overrides,
        }  # fmt: skip
        return await self.backend.signal_execution(c.SignalExecutionArgs(**given))

    async def effect(self, *args: Any, **overrides: Any) -> c.SignalEffect:
        """What a signal that is not the last one did."""
        outcome = await self.signal(*args, **overrides)
        assert isinstance(outcome, c.SignalAccepted), outcome
        return outcome.effect

    async def resume_signals(self, x: Subject, **overrides: Any) -> c.ListResumeSignalsPage:
        args = c.ListResumeSignalsArgs(execution_id=x.execution_id, **overrides)
        return await self.backend.list_resume_signals(args)

    async def resume(self, x: Subject, **overrides: Any) -> c.ResumeExecutionResult:
        return await self.backend.resume_execution(c.ResumeExecutionArgs(execution_id=x.execution_id, **overrides))

    async def close(self, x: Subject, at: WaitpointId, **overrides: Any) -> c.CloseWaitpointResult:
        args = c.CloseWaitpointArgs(execution_id=x.execution_id, waitpoint_id=at, **overrides)
        return await self.backend.close_waitpoint(args)

    async def token(self, x: Subject, at: c.IssuedWaitpoint) -> c.IssuedWaitpoint:
        args = c.ReadWaitpointTokenArgs(execution_id=x.execution_id, waitpoint_id=at.waitpoint_id)
        return await self.backend.read_waitpoint_token(args)

    async def due(self, x: Subject) -> b.DueWork:
        return await self.backend.run_due_work(b.RunDueWorkArgs(partition=partition_of(x.execution_id)))


def forged(at: c.IssuedWaitpoint, token: str) -> c.IssuedWaitpoint:
    return c.IssuedWaitpoint(
        waitpoint_id=at.waitpoint_id, waitpoint_key=at.waitpoint_key, waitpoint_token=WaitpointToken(token)
    )
