"""What budgets and quota policies are for: the scopes they are attached to."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from flowfabric.core import limits
from flowfabric.core.contracts.events import Cursor
from flowfabric.core.contracts.fields import BatchCount, Checked, Rule
from flowfabric.core.ids import BudgetId, ExecutionId, FlowId, LaneId, Namespace, TimestampMs
from flowfabric.core.partition import Partition
from flowfabric.errors import InvalidInput


class LimitScope(StrEnum):
    """Whose executions a limit is for."""

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


def check_scope(scope_type: LimitScope, scope_id: str) -> None:
    """A scope's id has the form of the ids of its kind."""
    try:
        _IDS[scope_type](scope_id)
    except InvalidInput as error:
        raise InvalidInput("scope_id", scope_id, f"must be the id of a {scope_type} ({error.message})") from None


def check_optional_scope(scope_type: LimitScope | None, scope_id: str | None) -> None:
    """A scope, or none."""
    if (scope_type is None) != (scope_id is None):
        raise InvalidInput("scope_id", scope_id, "must be given together with scope_type, and not without it")
    if scope_type is not None and scope_id is not None:
        check_scope(scope_type, scope_id)


def check_owner(namespace: Namespace | None, scope_type: LimitScope | None, scope_id: str | None) -> None:
    """A limit that is for a namespace is of that namespace."""
    if namespace is not None and scope_type is LimitScope.NAMESPACE and namespace != scope_id:
        raise InvalidInput("namespace", namespace, f"must be {scope_id}, as of the scope, or left out")


class AttachLimitArgs(Checked, frozen=True, kw_only=True):
    """A budget, or a quota policy, and a scope. Executions have all limits of their scopes, and their own.

    It takes effect partition by partition; what runs already goes on. A limit of the execution itself can also be given
    with its policy.
    """

    scope_type: LimitScope
    scope_id: ScopeId
    limit_kind: LimitKind
    limit_id: LimitId

    def __post_init__(self) -> None:
        super().__post_init__()
        check_scope(self.scope_type, self.scope_id)


class DrainAdmissionsArgs(Checked, frozen=True, kw_only=True):
    """Bring what one partition owes to limits to where they live, and let go what waits for limits that have room.

    Owed are the slots and open reservations of executions that stopped running, and of offers that nobody took.
    """

    partition: Partition
    limit: BatchCount = 100


class ReconcileLimitsArgs(Checked, frozen=True, kw_only=True):
    """Compare what the limits of one partition of theirs hold with the records that it is for, a bounded number.

    A slot or an open reservation that no record has is released: whoever had it has ended, and nobody paid for it.
    """

    partition: Partition
    cursor: Cursor | None = None
    limit: BatchCount = 100


class LimitsReconciled(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at and released, and where to go on; None at the end."""

    checked: int = 0
    released: int = 0
    cursor: str | None = None


class AdmissionsDrained(msgspec.Struct, frozen=True, kw_only=True):
    """What was done, and when there is something to do again; None: nothing is owed, and nothing waits."""

    lapsed: int = 0  # offers that nobody took
    paid: int = 0  # entries that were brought to their limits
    woken: int = 0  # executions that may be claimed again
    next_at_ms: TimestampMs | None = None
    now_ms: TimestampMs
