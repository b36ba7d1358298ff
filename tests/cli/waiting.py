"""Suspended executions for the commands: a worker by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flowfabric.client.fabric import Fabric
from flowfabric.core import contracts as c
from flowfabric.core.conditions import ByName, ResumeCondition, Single, referenced_waitpoint_keys
from flowfabric.core.ids import (
    AttemptId,
    ExecutionId,
    LaneId,
    LeaseId,
    SuspensionId,
    WaitpointId,
    WaitpointKey,
    WaitpointToken,
    WorkerId,
    WorkerInstanceId,
)
from flowfabric.core.links import SignalLink
from flowfabric.core.tokens import Kid, SecretHex
from tests.cli.harness import Cli

UNKNOWN = "1-00000000-0000-4000-8000-000000000000"
SECRET = "0f" * 32
HOUR_MS = 3_600_000
APPROVED = Single(WaitpointKey("reply"), ByName("approved"))


@dataclass
class Waiting:
    """A suspended execution, where it waits, and the token that lets a signal in."""

    id: str
    waitpoint: str
    token: str

    @property
    def digest(self) -> str:
        """The part of the token that nobody may see."""
        return self.token.partition(":")[2]

    def link(self, name: str | None = "approved") -> str:
        link = SignalLink(
            execution_id=ExecutionId(self.id),
            waitpoint_id=WaitpointId(self.waitpoint),
            token=WaitpointToken(self.token),
            signal_name=name,
        )
        return link.url("https://flows.example")


async def owned(fabric: Fabric, lane: str = "default") -> dict[str, Any]:
    """A new execution that a worker holds, as the calls of its owner name it."""
    return await claimed(fabric, (await fabric.submit("review", lane=lane)).id, lane)


async def claimed(fabric: Fabric, execution_id: ExecutionId, lane: str = "default") -> dict[str, Any]:
    """The same of one that waits for a worker, for the first time or again."""
    claim = await fabric.backend.issue_grant_and_claim(
        c.IssueGrantAndClaimArgs(
            execution_id=execution_id,
            worker_id=WorkerId("worker"),
            worker_instance_id=WorkerInstanceId("worker-1"),
            lane_id=LaneId(lane),
            lease_id=LeaseId.new(),
            lease_ttl_ms=30_000,
            attempt_id=AttemptId.new(),
        )
    )
    return {"execution_id": execution_id, "fence": claim.fence, "attempt_index": claim.attempt_index}


async def wait_for(
    fabric: Fabric, owner: dict[str, Any], condition: ResumeCondition = APPROVED, **overrides: Any
) -> c.SuspendExecutionResult:
    """Let the owner suspend, at new waitpoints of the keys that the condition names."""
    return await fabric.backend.suspend_execution(
        c.SuspendExecutionArgs(
            **owner,
            suspension_id=SuspensionId.new(),
            waitpoints=tuple(c.FreshWaitpoint.new(key) for key in referenced_waitpoint_keys(condition)),
            resume_condition=condition,
            **overrides,
        )
    )


def suspend(cli: Cli, lane: str = "default", **overrides: Any) -> Waiting:
    """One that waits for the signal `approved`."""

    async def body(fabric: Fabric) -> Waiting:
        await seed(fabric)
        owner = await owned(fabric, lane)
        done = await wait_for(fabric, owner, **overrides)
        return Waiting(owner["execution_id"].short, done.waitpoint_id, done.waitpoint_token.reveal())

    return cli.on_store(body)


async def seed(fabric: Fabric) -> None:
    args = c.SeedWaitpointHmacSecretArgs(kid=Kid("k1"), secret_hex=SecretHex(SECRET))
    await fabric.backend.seed_waitpoint_hmac_secret(args)


def state(cli: Cli, execution_id: str) -> str:
    found: str = cli("show", execution_id, "--json").json["public_state"]
    return found
