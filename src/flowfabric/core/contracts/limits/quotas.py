"""Quota policies: what may start within a window, and what may run at once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from flowfabric.core import limits
from flowfabric.core.contracts.fields import Checked, DurationMs, Outcome
from flowfabric.core.contracts.limits.attachments import LimitScope, ScopeId, check_optional_scope, check_owner
from flowfabric.core.ids import ExecutionId, Namespace, QuotaPolicyId, TimestampMs
from flowfabric.errors import InvalidInput

WindowSeconds: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_DURATION_MS // 1000)]
QuotaCount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_CONCURRENCY)]
Ticket: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_AMOUNT)]


class QuotaKey(StrEnum):
    """By what the executions of a scope are counted apart."""

    NAMESPACE = "namespace"
    LANE = "lane"
    EXECUTION_KIND = "execution_kind"
    CONCURRENCY_KEY = "concurrency_key"


class QuotaLimits(Checked, frozen=True, kw_only=True):
    """So many starts within a sliding window, so many running at once; 0 is no limit."""

    quota_policy_id: QuotaPolicyId
    window_seconds: WindowSeconds = 0
    max_requests_per_window: QuotaCount = 0
    max_concurrent: QuotaCount = 0
    jitter_ms: DurationMs = 0  # how much later those who are told to wait may be told, each by chance

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.window_seconds) != bool(self.max_requests_per_window):
            problem = "must be given together with max_requests_per_window, and not without it"
            raise InvalidInput("window_seconds", self.window_seconds, problem, code="invalid_quota_spec")


class CreateQuotaPolicyArgs(QuotaLimits, frozen=True, kw_only=True):
    """A quota for the executions of a scope, over all of them or for each key by itself.

    Without a scope it is for those that name it in their policy.
    """

    key_by: QuotaKey | None = None
    scope_type: LimitScope | None = None
    scope_id: ScopeId | None = None
    namespace: Namespace | None = None  # whose it is, for ever; None: of the namespace it is for, or the store's own

    def __post_init__(self) -> None:
        super().__post_init__()
        check_optional_scope(self.scope_type, self.scope_id)
        check_owner(self.namespace, self.scope_type, self.scope_id)


class QuotaPolicyCreated(Outcome, frozen=True, kw_only=True, tag="created"):
    quota_policy_id: QuotaPolicyId


class QuotaPolicyAlreadySatisfied(Outcome, frozen=True, kw_only=True, tag="already_satisfied"):
    """It exists, and was left as it is."""

    quota_policy_id: QuotaPolicyId


CreateQuotaPolicyResult: TypeAlias = QuotaPolicyCreated | QuotaPolicyAlreadySatisfied


class ConfigureQuotaPolicyArgs(QuotaLimits, frozen=True, kw_only=True):
    """The whole of a policy's limits, while it is in use. What runs already goes on, also above a lower limit."""


class CheckAdmissionArgs(Checked, frozen=True, kw_only=True):
    """Ask for a start within limits that the caller names, and take it: for schedulers of one's own.

    Claims of this library ask by themselves. The same execution and ticket is admitted once; another ticket has a slot
    of its own. A ticket that was released is refused with `claim_grant_expired`, and so is a time that is too long ago.
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
    """The window is full; there is room after this long."""

    retry_after_ms: int


class ConcurrencyExceeded(Outcome, frozen=True, kw_only=True, tag="concurrency_exceeded"):
    """All slots are taken."""


CheckAdmissionResult: TypeAlias = Admitted | AlreadyAdmitted | RateExceeded | ConcurrencyExceeded


class ReleaseAdmissionArgs(Checked, frozen=True, kw_only=True):
    """Give back the slot that an execution has under this ticket."""

    quota_policy_id: QuotaPolicyId
    execution_id: ExecutionId
    ticket: Ticket = 0


class AdmissionReleased(Outcome, frozen=True, kw_only=True, tag="released"):
    pass


ReleaseAdmissionResult: TypeAlias = AdmissionReleased


class QuotaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A quota policy as it stands: over all, or for the key that was asked for."""

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
    room: int = 0  # how many may start now
    retry_after_ms: int | None = None  # until the window has room; None: it has
    namespace: str | None = None  # whose it is; None: the store's own
