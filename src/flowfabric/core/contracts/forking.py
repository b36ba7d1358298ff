"""Forks: a new execution that begins with the recorded steps of another one."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec

from flowfabric.core import limits
from flowfabric.core.contracts.execution import ExecutionDuplicate
from flowfabric.core.contracts.fields import Checked, Encoding, Outcome, Payload, Rule
from flowfabric.core.contracts.waits.steps import StepKey, StepPayload
from flowfabric.core.ids import ExecutionId
from flowfabric.core.states import PublicState
from flowfabric.errors import InvalidInput

FORKED_FROM_TAG: Final = "flowfabric.forked_from"


class ChangedStep(Checked, frozen=True, kw_only=True):
    """Another result of a recorded step."""

    step: StepKey
    payload: StepPayload
    encoding: Encoding | None = None


def _changes(field: str, value: Any) -> tuple[ChangedStep, ...]:
    if not isinstance(value, tuple | list) or not all(isinstance(each, ChangedStep) for each in value):
        raise InvalidInput(field, value, "must be a list of ChangedStep")
    if len(value) > limits.MAX_CHANGED_STEPS:
        raise InvalidInput(field, len(value), f"must have at most {limits.MAX_CHANGED_STEPS} steps")
    return tuple(value)


ChangedSteps: TypeAlias = Annotated[
    tuple[ChangedStep, ...], msgspec.Meta(max_length=limits.MAX_CHANGED_STEPS), Rule(_changes)
]


class ForkExecutionArgs(Checked, frozen=True, kw_only=True):
    """A new execution of the same task, lane, namespace and policy, with the records before `from_step`, or all.

    Without an input it has that of the source. It is no member of a flow. Its tag `flowfabric.forked_from` names the
    source. The id must be in the partition of the source; without one the store chooses it.
    """

    execution_id: ExecutionId
    fork_id: ExecutionId | None = None
    from_step: StepKey | None = None
    input_payload: Payload | None = None
    payload_encoding: Encoding | None = None
    changed: ChangedSteps = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fork_id is not None and self.fork_id.tag != self.execution_id.tag:
            raise InvalidInput(
                "fork_id", self.fork_id, f"must be in the partition of the source, {self.execution_id.tag}"
            )


class ExecutionForked(Outcome, frozen=True, kw_only=True, tag="forked"):
    execution_id: ExecutionId
    public_state: PublicState
    step_count: int  # of the records that it begins with


ForkExecutionResult: TypeAlias = ExecutionForked | ExecutionDuplicate
