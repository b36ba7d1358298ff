"""Quota policies: limits on starts within a window and on concurrent executions."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from flowfabric.core import limits
from flowfabric.core.contracts.fields import Checked, DurationMs, Outcome
from flowfabric.core.contracts.limits.attachments import LimitScope, ScopeId, check_owner, optional_scope, stored_scope
from flowfabric.core.ids import ExecutionId, Namespace, QuotaPolicyId, TimestampMs
from flowfabric.errors import InvalidInput

WindowSeconds: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_DURATION_MS // 1000)]
QuotaCount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_CONCURRENCY)]
Ticket: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_AMOUNT)]


class QuotaKey(StrEnum):
    """The key by which the executions of a scope are counted separately."""

    NAMESPACE = "namespace"
    LANE = "lane"
    EXECUTION_KIND = "execution_kind"
    CONCURRENCY_KEY = "concurrency_key"


class QuotaLimits(Checked, frozen=True, kw_only=True):
    """Limits on starts within a sliding window and on concurrent executions; 0 means no limit."""

    quota_policy_id: QuotaPolicyId
    window_seconds: WindowSeconds = 0
    max_requests_per_window: QuotaCount = 0
    max_concurrent: QuotaCount = 0
    jitter_ms: DurationMs = 0  # random extra wait in retry_after_ms, at most this long

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.window_seconds) != bool(self.max_requests_per_window):
            problem = "must be set if and only if max_requests_per_window is set"
            raise InvalidInput("window_seconds", self.window_seconds, problem, code="invalid_quota_spec")


class CreateQuotaPolicyArgs(QuotaLimits, frozen=True, kw_only=True):
    """A quota for the executions of a scope, counted together or per key.

    Without a scope it applies to executions that name it in their policy.
    """

    key_by: QuotaKey | None = None
    scope_type: LimitScope | None = None
    scope_id: ScopeId | None = None
    namespace: Namespace | None = None  # the owner, fixed; None: the scope's namespace, or the store

    def __post_init__(self) -> None:
        super().__post_init__()
        force_setattr(self, "scope_id", optional_scope(self.scope_type, self.scope_id))
        check_owner(self.namespace, self.scope_type, self.scope_id)


class QuotaPolicyCreated(Outcome, frozen=True, kw_only=True, tag="created"):
    quota_policy_id: QuotaPolicyId


class QuotaPolicyAlreadySatisfied(Outcome, frozen=True, kw_only=True, tag="already_satisfied"):
    """It already exists and was not changed."""

    quota_policy_id: QuotaPolicyId


CreateQuotaPolicyResult: TypeAlias = QuotaPolicyCreated | QuotaPolicyAlreadySatisfied


class ConfigureQuotaPolicyArgs(QuotaLimits, frozen=True, kw_only=True):
    """Replace all limits of a policy while it is in use. Running executions continue, even above a lower limit."""


class CheckAdmissionArgs(Checked, frozen=True, kw_only=True):
    """Take a start within limits that the caller names: for custom schedulers.

    Claims of this library do this themselves. The same execution and ticket is admitted once; another ticket gets its
    own slot. A released ticket, or a ticket that is too old, is refused with `claim_grant_expired`.
    """

    quota_policy_id: QuotaPolicyId
    execution_id: ExecutionId
    window_seconds: WindowSeconds
    rate_limit: QuotaCount
    concurrency_cap: QuotaCount
    jitter_ms: DurationMs | None = None
    ticket: Ticket = 0


class Admitted(Outcome, frozen=True, kw_only=True, tag="admitted"):
    pass


class AlreadyAdmitted(Outcome, frozen=True, kw_only=True, tag="already_admitted"):
    pass


class RateExceeded(Outcome, frozen=True, kw_only=True, tag="rate_exceeded"):
    """The window is full; retry after this time."""

    retry_after_ms: int


class ConcurrencyExceeded(Outcome, frozen=True, kw_only=True, tag="concurrency_exceeded"):
    """All slots are taken."""


CheckAdmissionResult: TypeAlias = Admitted | AlreadyAdmitted | RateExceeded | ConcurrencyExceeded


class ReleaseAdmissionArgs(Checked, frozen=True, kw_only=True):
    """Release the slot that an execution holds under this ticket."""

    quota_policy_id: QuotaPolicyId
    execution_id: ExecutionId
    ticket: Ticket = 0


class AdmissionReleased(Outcome, frozen=True, kw_only=True, tag="released"):
    pass


ReleaseAdmissionResult: TypeAlias = AdmissionReleased


class QuotaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of a quota policy, in total or for the requested key."""

    quota_policy_id: QuotaPolicyId
    window_seconds: int
    max_requests_per_window: int
    max_concurrent: int
    jitter_ms: int = 0
    key_by: str | None = None
    scope_type: str | None = None
    scope_id: str | None = None
    created_at: TimestampMs | None = None
    running: int = 0
    started: int = 0  # within the window
    room: int = 0  # starts that are possible now
    retry_after_ms: int | None = None  # None: the window has room
    namespace: str | None = None  # the owner; None: the store

    def __post_init__(self) -> None:
        force_setattr(self, "scope_id", stored_scope(self.scope_type, self.scope_id))
