"""Exit codes: one per error family."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from flowfabric.errors import Family, FlowFabricError


class ExitCode(IntEnum):
    """The exit codes; scripts may rely on them."""

    OK = 0
    INTERNAL = 1
    INVALID = 2  # also for a misspelt option
    NOT_FOUND = 3
    CONFLICT = 4
    LIMITED = 5
    UNAVAILABLE = 6
    TIMED_OUT = 7
    INTERRUPTED = 130  # the shell's code for Ctrl-C


MEANINGS: Final = {
    ExitCode.OK: "success",
    ExitCode.INTERNAL: "a bug in this program or in the store",
    ExitCode.INVALID: "invalid input; nothing was changed",
    ExitCode.NOT_FOUND: "not found",
    ExitCode.CONFLICT: "the state does not allow it, or the awaited execution ended without a result",
    ExitCode.LIMITED: "a limit is reached",
    ExitCode.UNAVAILABLE: "the store cannot serve the call, or `doctor` found a failure",
    ExitCode.TIMED_OUT: "timed out",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
}

_BY_FAMILY: Final = {
    Family.NOT_FOUND: ExitCode.NOT_FOUND,
    Family.CONFLICT: ExitCode.CONFLICT,
    Family.INVALID: ExitCode.INVALID,
    Family.LIMITED: ExitCode.LIMITED,
    Family.UNAVAILABLE: ExitCode.UNAVAILABLE,
    Family.INTERNAL: ExitCode.INTERNAL,
}


def exit_code(error: BaseException) -> ExitCode:
    """The exit code for an error."""
    if isinstance(error, FlowFabricError):
        return _BY_FAMILY[error.family]
    return ExitCode.TIMED_OUT if isinstance(error, TimeoutError) else ExitCode.INTERNAL
