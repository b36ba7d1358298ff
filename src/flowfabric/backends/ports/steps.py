"""The port of durable steps; it is part of EngineBackend (backends/ports.py), and what is said there holds here."""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c


class StepPort(Protocol):
    """What a handler has done already, whichever of its passes did it."""

    async def record_step(self, args: c.RecordStepArgs) -> c.RecordStepResult:
        """Record a step's result; the state does not change. A step that has one keeps it and answers it.

        With `replace` the new result takes its place, and the step keeps its place in the order.
        Steps live as long as their execution: retries, resumes and reclaims find them, a replay begins without them.
        """
        ...

    async def read_steps(self, args: c.ReadStepsArgs) -> c.ReadStepsPage:
        """The steps of one execution, in the order of recording."""
        ...
