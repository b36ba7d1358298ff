"""A worker of the approval example that kills itself at one line of the agent, the first time it comes there."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from examples.approval import agent
from flowfabric import Worker

AGENT = (agent.publish.function.__code__, agent.escalate.__code__)


def lines_of(code: CodeType) -> list[int]:
    """Where it can be between two lines: before each of them but the one with its name."""
    return sorted({line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno + 1})


def work(url: str, lane: str, fatal_line: int, mark: str) -> None:
    """Run the agent until somebody stops this process, or the line does."""
    sys.settrace(_killer(fatal_line, Path(mark)))
    worker = Worker([lane], lease_ttl_ms=1_000, grace=1)
    worker.add(agent.publish)
    asyncio.run(worker.run(url))


def _killer(fatal_line: int, mark: Path) -> Any:
    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code not in AGENT:
            return None
        if event == "line" and frame.f_lineno == fatal_line and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace
