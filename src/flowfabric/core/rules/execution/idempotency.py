"""Idempotency: a submit with a known id or key is answered, refused, or replaces the earlier content."""

from __future__ import annotations

from enum import StrEnum

from flowfabric.core.contracts.execution import DuplicateMode
from flowfabric.core.ids import ExecutionId
from flowfabric.core.rules.outcome import Refusal
from flowfabric.core.states import AttemptState, LifecyclePhase, StateVector, TerminalOutcome


class Submit(StrEnum):
    """What an accepted submit does."""

    CREATE = "create"
    DUPLICATE = "duplicate"  # answered with the earlier execution, unchanged
    REPLACE = "replace"  # the earlier execution gets the new content


def has_not_started(state: StateVector) -> bool:
    return (
        state.lifecycle_phase is LifecyclePhase.RUNNABLE and state.attempt_state is AttemptState.PENDING_FIRST_ATTEMPT
    )


def has_missed(state: StateVector) -> bool:
    """It ended without success: failed, expired, cancelled or skipped."""
    return state.lifecycle_phase is LifecyclePhase.TERMINAL and state.terminal_outcome is not TerminalOutcome.SUCCESS


def meet_duplicate(
    mode: DuplicateMode, execution_id: ExecutionId, existing_id: ExecutionId | None, existing: StateVector | None, *,
    is_taken: bool = False,
) -> Refusal | Submit:  # fmt: skip
    """`existing_id`: the execution of the same id or key. `existing`: its state; None when its record is gone.

    The same id is the same call again, in every mode (G3). is_taken: the submitted id has an execution, which lost its
    key to a later one; then the answer is that execution.
    """
    if existing_id is None:
        return Submit.CREATE
    if mode is DuplicateMode.UNTIL_SUCCESS and existing_id != execution_id:
        is_free = existing is not None and has_missed(existing) and not is_taken
        return Submit.CREATE if is_free else Submit.DUPLICATE
    if mode is DuplicateMode.RETURN_EXISTING or existing_id == execution_id:
        return Submit.DUPLICATE
    if mode is DuplicateMode.REJECT:
        return Refusal("execution_already_exists", {"existing_execution_id": existing_id})
    return Submit.REPLACE if existing is not None and has_not_started(existing) else Submit.DUPLICATE
