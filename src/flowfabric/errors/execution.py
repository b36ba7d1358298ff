"""Errors of an execution, its lease and its claim."""

from __future__ import annotations

from flowfabric.errors.base import Conflict, NotFound


class ExecutionNotFound(NotFound):
    default_code = "execution_not_found"


class StaleLease(Conflict):
    default_code = "stale_lease"


class LeaseExpired(Conflict):
    default_code = "lease_expired"


class LeaseRevoked(Conflict):
    default_code = "lease_revoked"


class ExecutionNotActive(Conflict):
    """No attempt is running; the details describe the state of the execution.

    details: terminal_outcome, lease_epoch, lifecycle_phase, attempt_id, attempt_state, delay_until, public_state
    """

    default_code = "execution_not_active"


class CapabilityMismatch(Conflict):
    """The worker lacks capabilities; details: missing (comma-separated)."""

    default_code = "capability_mismatch"
