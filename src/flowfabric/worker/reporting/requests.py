"""Arguments of store calls, made without validating values that came from the store.

A contract validates each field when it is built, which costs more than running a small handler. The values here come
from a claim, so they are set in a copy of a validated template.
"""

from __future__ import annotations

from typing import Final, TypeVar

from msgspec.structs import force_setattr

from flowfabric.client.tasks.payloads import ENCODING
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import AttemptId, ExecutionId, LeaseId

T = TypeVar("T")

_ID: Final = "00000000-0000-4000-8000-000000000000"
_EXECUTION: Final = ExecutionId(f"{{fp:0}}:{_ID}")
_FENCE: Final = c.LeaseFence(lease_id=LeaseId(_ID), lease_epoch=0, attempt_id=AttemptId(_ID))
_COMPLETE: Final = c.CompleteExecutionArgs(
    execution_id=_EXECUTION, fence=_FENCE, result_payload=b"", result_encoding=ENCODING
)
_RENEW: Final = c.RenewLeaseArgs(execution_id=_EXECUTION, attempt_index=0, fence=_FENCE, lease_ttl_ms=1)
_APPEND: Final = c.AppendFramesArgs(
    execution_id=_EXECUTION,
    attempt_index=0,
    fence=_FENCE,
    first_number=0,
    frames=(c.Frame(frame_type="none", payload=b""),),
)


def like(template: T) -> T:
    """A copy whose fields can be set with force_setattr."""
    return template.__copy__()  # type: ignore[attr-defined, no-any-return]


def completion(execution_id: ExecutionId, fence: c.LeaseFence, payload: bytes) -> c.CompleteExecutionArgs:
    """`payload` comes from Task.encode_result, which has checked its size."""
    args = like(_COMPLETE)
    force_setattr(args, "execution_id", execution_id)
    force_setattr(args, "fence", fence)
    force_setattr(args, "result_payload", payload)
    return args


def renewal(execution_id: ExecutionId, attempt_index: int, fence: c.LeaseFence, ttl_ms: int) -> c.RenewLeaseArgs:
    args = like(_RENEW)
    force_setattr(args, "execution_id", execution_id)
    force_setattr(args, "attempt_index", attempt_index)
    force_setattr(args, "fence", fence)
    force_setattr(args, "lease_ttl_ms", ttl_ms)
    return args


def frames_of(
    execution_id: ExecutionId, attempt_index: int, fence: c.LeaseFence, first_number: int, frames: tuple[c.Frame, ...]
) -> c.AppendFramesArgs:
    """`frames` must be within their bounds."""
    args = like(_APPEND)
    force_setattr(args, "execution_id", execution_id)
    force_setattr(args, "attempt_index", attempt_index)
    force_setattr(args, "fence", fence)
    force_setattr(args, "first_number", first_number)
    force_setattr(args, "frames", frames)
    return args


def claim_for(template: b.ClaimExecutionsArgs, count: int, park: int | None) -> b.ClaimExecutionsArgs:
    """The same claim for other counts, which must be within their bounds."""
    args = like(template)
    force_setattr(args, "count", count)
    force_setattr(args, "park", park)
    return args
