"""Marks: frames that a worker adds to a stream, so that readers know which of its frames still count.

A handler is run from its top after a wait and in a new attempt, and emits again what it emits outside of steps. The
output of a recorded step stays where it was emitted first; a mark refers to it. Marks have no payload, except for
summary patches, so readers that do not know them can ignore them.
"""

from __future__ import annotations

from typing import Final

import msgspec

PREFIX: Final = "ff:"  # of frame types that are reserved
RERUN: Final = "ff:pass"  # a later pass begins: earlier frames of the attempt are void, except those of steps
STEP: Final = "ff:step"  # here belongs the output of a recorded step; the metadata is a StepOutput
PATCH: Final = "ff:patch"  # a summary frame that applies the patches of a recorded step again


class StepOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the frames of one run of a step are: those with its `step_run` in the stream of an attempt."""

    attempt_index: int
    run: str
    execution_id: str = ""  # "": the execution of the mark
    first_id: str | None = None  # None: not known, read from the beginning
    last_id: str | None = None  # None: not known, read to the end
    count: int = 0  # of its frames; 0: not known


def is_mark(frame_type: str) -> bool:
    return frame_type.startswith(PREFIX)
