"""From an error code to the class that carries it."""

from __future__ import annotations

from flowfabric.errors.base import Conflict, FlowFabricError, Internal, Invalid, Limited, NotFound, Unavailable
from flowfabric.errors.codes import CODES
from flowfabric.errors.execution import (
    CapabilityMismatch,
    ExecutionNotActive,
    ExecutionNotFound,
    LeaseExpired,
    LeaseRevoked,
    StaleLease,
)
from flowfabric.errors.families import Family
from flowfabric.errors.inputs import InvalidToken
from flowfabric.errors.limits import BudgetExceeded
from flowfabric.errors.store import (
    BackendTimeout,
    BackendUnavailable,
    BadReply,
    Corruption,
    PartitionMismatch,
    ScriptFault,
    UnsupportedServer,
)

_BY_FAMILY: dict[Family, type[FlowFabricError]] = {
    Family.NOT_FOUND: NotFound, Family.CONFLICT: Conflict, Family.INVALID: Invalid,
    Family.LIMITED: Limited, Family.UNAVAILABLE: Unavailable, Family.INTERNAL: Internal,
}  # fmt: skip

_BY_CODE: dict[str, type[FlowFabricError]] = {
    kind.default_code: kind
    for kind in (
        ExecutionNotFound, StaleLease, LeaseExpired, LeaseRevoked, ExecutionNotActive, CapabilityMismatch,
        BudgetExceeded, InvalidToken, BackendUnavailable, BackendTimeout, UnsupportedServer, PartitionMismatch,
        ScriptFault, BadReply, Corruption,
    )
}  # fmt: skip
_BY_CODE["token_expired"] = InvalidToken


def error_class_for(code: str) -> type[FlowFabricError]:
    """The exception class that carries `code`; its family's class where the code has none of its own."""
    if code not in CODES:
        return BadReply
    return _BY_CODE.get(code) or _BY_FAMILY[CODES[code].family]
