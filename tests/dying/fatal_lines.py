"""Lines at which a worker process kills itself, the first time it comes to one."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Collection
from pathlib import Path
from types import CodeType, FrameType
from typing import Any


def lines_of(code: CodeType) -> list[int]:
    """Where it can be between two lines: before each of them but the one with its name."""
    return sorted({line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno + 1})


def die_at(codes: Collection[CodeType], fatal_line: int, mark: Path) -> None:
    """Kill this process with -9 before the line of one of these functions. The mark says that it has happened."""

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code not in codes:
            return None
        if event == "line" and frame.f_lineno == fatal_line and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
