"""A worker of the approval example that kills itself at one line of the agent, the first time it comes there."""

from __future__ import annotations

import asyncio
from pathlib import Path

from examples.approval import agent
from flowfabric import Worker
from tests.dying.fatal_lines import die_at

AGENT = (agent.publish.function.__code__, agent.escalate.__code__)


def work(url: str, lane: str, fatal_line: int, mark: str) -> None:
    """Run the agent until somebody stops this process, or the line does."""
    die_at(AGENT, fatal_line, Path(mark))
    worker = Worker([lane], grace=1)
    worker.add(agent.publish)
    asyncio.run(worker.run(url))
