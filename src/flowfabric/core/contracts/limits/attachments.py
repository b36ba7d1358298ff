"""Attachments: the scopes that budgets and quota policies apply to."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from flowfabric.core import limits
from flowfabric.core.contracts.events import Cursor
from flowfabric.core.contracts.fields import BatchCount, Checked, Rule
from flowfabric.core.ids import BudgetId, ExecutionId, FlowId, LaneId, Namespace, TimestampMs
from flowfabric.core.partition import Partition
from flowfabric.errors import InvalidInput


class LimitScope(StrEnum):
    """Which executions a limit applies to."""

    NAMESPACE = "namespace"
    LANE = "lane"
    FLOW = "flow"
    EXECUTION = "execution"


class LimitKind(StrEnum):
    BUDGET = "budget"
    QUOTA = "quota"


def _limit_id(field: str, value: object) -> str:
    try:
        return str(BudgetId(value))  # type: ignore[arg-type]
    except InvalidInput:
        raise InvalidInput(field, value, "must be the id of a budget or quota policy: a lower-case UUID") from None


LimitId: TypeAlias = Annotated[str, Rule(_limit_id)]
ScopeId: TypeAlias = Annotated[str, Rule(lambda field, value: limits.label(field, value, 1, limits.NAME_MAX_BYTES))]

_IDS = {
    LimitScope.NAMESPACE: Namespace,
    LimitScope.LANE: LaneId,
    LimitScope.FLOW: FlowId,
    LimitScope.EXECUTION: ExecutionId,
}


def scope_of(scope_type: LimitScope, scope_id: str) -> str:
    """The scope id as an id of its kind; an execution's id may have its short form."""
    try:
        return _IDS[scope_type](scope_id)
    except InvalidInput as error:
        raise InvalidInput("scope_id", scope_id, f"must be the id of a {scope_type} ({error.message})") from None


def optional_scope(scope_type: LimitScope | None, scope_id: str | None) -> str | None:
    """The same of a scope that may be absent."""
    if (scope_type is None) != (scope_id is None):
        raise InvalidInput("scope_id", scope_id, "must be set if and only if scope_type is set")
    return None if scope_type is None or scope_id is None else scope_of(scope_type, scope_id)


def stored_scope(scope_type: str | None, scope_id: str | None) -> str | None:
    """The scope id of a limit that was read: an execution's as its id, whatever form it came in."""
    if scope_type != LimitScope.EXECUTION or not scope_id:
        return scope_id
    try:
        return ExecutionId(scope_id)
    except InvalidInput:  # a damaged record is shown as it is
        return scope_id


def check_owner(namespace: Namespace | None, scope_type: LimitScope | None, scope_id: str | None) -> None:
    """A limit whose scope is a namespace is owned by that namespace."""
    if namespace is not None and scope_type is LimitScope.NAMESPACE and namespace != scope_id:
        raise InvalidInput("namespace", namespace, f"must be {scope_id}, the scope's namespace, or omitted")


class AttachLimitArgs(Checked, frozen=True, kw_only=True):
    """Attach a budget or quota policy to a scope. Executions have all limits of their scopes, and their own.

    It takes effect partition by partition; running executions continue. An execution's own limits can also be set in
    its policy.
    """

    scope_type: LimitScope
    scope_id: ScopeId
    limit_kind: LimitKind
    limit_id: LimitId

    def __post_init__(self) -> None:
        super().__post_init__()
        force_setattr(self, "scope_id", scope_of(self.scope_type, self.scope_id))


class DrainAdmissionsArgs(Checked, frozen=True, kw_only=True):
    """Return slots and open reservations of one partition to their limits, and unblock executions where there is room.

    They belong to executions that stopped running, and to offers that expired.
    """

    partition: Partition
    limit: BatchCount = 100


class ReconcileLimitsArgs(Checked, frozen=True, kw_only=True):
    """Compare the slots and reservations of one limit partition with the executions' records, page by page.

    A slot or reservation that no record owns is released: its execution has ended without returning it.
    """

    partition: Partition
    cursor: Cursor | None = None
    limit: BatchCount = 100


class LimitsReconciled(msgspec.Struct, frozen=True, kw_only=True):
    """What was checked and released; the cursor is None at the end."""

    checked: int = 0
    released: int = 0
    cursor: str | None = None


class AdmissionsDrained(msgspec.Struct, frozen=True, kw_only=True):
    """What was done, and when more work is due; None: no handovers and no waiting executions are left."""

    lapsed: int = 0  # expired offers
    paid: int = 0  # handovers that were settled with their limits
    woken: int = 0  # executions that were unblocked
    next_at_ms: TimestampMs | None = None
    now_ms: TimestampMs
