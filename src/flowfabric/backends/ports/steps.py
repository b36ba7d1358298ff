"""Durable steps: results that a handler keeps across retries and resumes."""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c


class StepPort(Protocol):
    """The recorded steps of an execution."""

    async def record_step(self, args: c.RecordStepArgs) -> c.RecordStepResult:
        """Record the result of a step. The execution's state does not change.

        A step that already has a result keeps it and returns it. With `replace` the new result takes its place,
        and the step keeps its position. Retries, resumes and reclaims find the steps; a replay starts without
        them.
        """
        ...

    async def read_steps(self, args: c.ReadStepsArgs) -> c.ReadStepsPage:
        """List the steps of one execution in the order of recording."""
        ...
