"""Waitpoints: the addressable places where signals arrive, before and during a suspension."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self, TypeAlias

import msgspec

from flowfabric.core import limits
from flowfabric.core.contracts.execution import CancelSource
from flowfabric.core.contracts.fields import Checked, Outcome, Reason, ScanLimit
from flowfabric.core.contracts.lease import LeaseFence
from flowfabric.core.forms import WaitForm
from flowfabric.core.ids import AttemptIndex, ExecutionId, TimestampMs, WaitpointId, WaitpointKey, WaitpointToken

ExpiresInMs: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=limits.MAX_DURATION_MS)]


class WaitpointState(StrEnum):
    PENDING = "pending"  # created before its suspension; signals are buffered
    ACTIVE = "active"
    CLOSED = "closed"
    EXPIRED = "expired"


class FreshWaitpoint(Checked, frozen=True, kw_only=True, tag_field="binding", tag="fresh"):
    """A waitpoint that the suspension creates."""

    waitpoint_id: WaitpointId
    waitpoint_key: WaitpointKey

    @classmethod
    def new(cls, waitpoint_key: str | None = None) -> Self:
        """With a new id; without a key, the key is derived from the id."""
        waitpoint_id = WaitpointId.new()
        key = WaitpointKey(waitpoint_key) if waitpoint_key else WaitpointKey.trusted(f"wpk:{waitpoint_id}")
        return cls(waitpoint_id=waitpoint_id, waitpoint_key=key)


class PendingWaitpoint(Checked, frozen=True, kw_only=True, tag_field="binding", tag="use_pending"):
    """A waitpoint created by create_pending_waitpoint; its buffered signals count.

    The store knows its key; a key given here is checked against the condition before the call.
    """

    waitpoint_id: WaitpointId
    waitpoint_key: WaitpointKey | None = None


WaitpointBinding: TypeAlias = FreshWaitpoint | PendingWaitpoint


class IssuedWaitpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A waitpoint and the token that its signallers must present."""

    waitpoint_id: WaitpointId
    waitpoint_key: WaitpointKey
    waitpoint_token: WaitpointToken


class CreatePendingWaitpointArgs(Checked, frozen=True, kw_only=True):
    """The owner creates a waitpoint before its suspension, so that early signals are kept.

    Without a suspension within `expires_in_ms`, it expires with its buffered signals.
    """

    execution_id: ExecutionId
    fence: LeaseFence
    attempt_index: AttemptIndex
    waitpoint_id: WaitpointId
    waitpoint_key: WaitpointKey
    expires_in_ms: ExpiresInMs


class PendingWaitpointCreated(Outcome, frozen=True, kw_only=True, tag="created"):
    waitpoint_id: WaitpointId
    waitpoint_key: WaitpointKey
    waitpoint_token: WaitpointToken


CreatePendingWaitpointResult: TypeAlias = PendingWaitpointCreated


class CloseWaitpointArgs(Checked, frozen=True, kw_only=True):
    """Close a waitpoint: it accepts no more signals.

    Only an operator may close an active waitpoint of a suspended execution (D8).
    """

    execution_id: ExecutionId
    waitpoint_id: WaitpointId
    reason: Reason = "proactive_close"
    source: CancelSource = CancelSource.LEASE_HOLDER


class WaitpointClosed(Outcome, frozen=True, kw_only=True, tag="closed"):
    pass


class WaitpointAlreadyClosed(Outcome, frozen=True, kw_only=True, tag="already_closed"):
    """It was already closed or expired; nothing changed."""


CloseWaitpointResult: TypeAlias = WaitpointClosed | WaitpointAlreadyClosed


class ReadWaitpointTokenArgs(Checked, frozen=True, kw_only=True):
    """Read the token of an open waitpoint; a new token is signed if it has no valid one."""

    execution_id: ExecutionId
    waitpoint_id: WaitpointId


class PendingWaitpointInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An open waitpoint as any reader may see it: the name of the secret that signed its token, never the token.

    Without a token, token_kid and token_fingerprint are empty. If the signing secret is no longer valid, only
    the fingerprint is empty. required_signal_names: the names its condition waits for; empty while it is
    pending, and for any signal.
    """

    waitpoint_id: WaitpointId
    waitpoint_key: WaitpointKey
    execution_id: ExecutionId
    state: WaitpointState
    created_at: TimestampMs
    token_kid: str
    token_fingerprint: str
    required_signal_names: tuple[str, ...] = ()
    activated_at: TimestampMs | None = None  # None: pending
    expires_at: TimestampMs | None = None  # None: never


class ListPendingWaitpointsArgs(Checked, frozen=True, kw_only=True):
    """Pending and active waitpoints of one execution, by id, after `after`."""

    execution_id: ExecutionId
    after: WaitpointId | None = None
    limit: ScanLimit = 100


class ListPendingWaitpointsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of waitpoints; the cursor is None on the last page. The form belongs to the active ones."""

    entries: tuple[PendingWaitpointInfo, ...] = ()
    next_cursor: WaitpointId | None = None
    form: WaitForm | None = None  # None: the wait asks no question and declares no type
