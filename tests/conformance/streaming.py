"""Short words for emitting and reading frames."""

from __future__ import annotations

from typing import Any

from flowfabric.core import contracts as c
from flowfabric.errors import FlowFabricError
from tests.conformance.driver import TTL, Driver, Subject


async def running(driver: Driver, lease_ttl_ms: int = TTL, **create: Any) -> Subject:
    return await driver.run(await driver.create(**create), attempt_timeout_ms=None, lease_ttl_ms=lease_ttl_ms)


def frames(*payloads: bytes, **members: Any) -> tuple[c.Frame, ...]:
    given = {"frame_type": "token", "encoding": "utf8", **members}
    return tuple(c.Frame(payload=payload, **given) for payload in payloads)


def many(x: Subject, first: int, *payloads: bytes, **overrides: Any) -> c.AppendFramesArgs:
    args: dict[str, Any] = {
        "execution_id": x.execution_id, "attempt_index": x.attempt_index, "fence": x.fence, "first_number": first,
        "frames": frames(*payloads), **overrides,
    }  # fmt: skip
    return c.AppendFramesArgs(**args)


async def append_many(driver: Driver, args: c.AppendFramesArgs) -> c.FramesAppended:
    (outcome,) = await driver.backend.append_frames([args])
    if isinstance(outcome, FlowFabricError):
        raise outcome
    return outcome


async def read(driver: Driver, x: Subject, index: int | None = None, **overrides: Any) -> c.StreamFrames:
    attempt = x.attempt_index if index is None else index
    return await driver.backend.read_attempt_stream(
        c.ReadFramesArgs(execution_id=x.execution_id, attempt_index=attempt, **overrides)
    )


def payloads(page: c.StreamFrames) -> list[bytes]:
    return [frame.payload for frame in page.frames]
