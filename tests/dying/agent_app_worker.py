"""A worker of the agent app that kills itself at one line of the agent, the first time it comes there."""

from __future__ import annotations

import asyncio
from pathlib import Path

from examples.agent_app import agent
from flowfabric import Worker
from tests.dying.fatal_lines import die_at

HANDLER, MODEL_STEP = agent.answer.function.__code__, agent.think.__code__


def work(url: str, lane: str, fatal_line: int, mark: str) -> None:
    """Run the agent until somebody stops this process, or the line does."""
    die_at((HANDLER, MODEL_STEP), fatal_line, Path(mark))
    worker = Worker([lane], grace=1)
    worker.add(agent.answer)
    asyncio.run(worker.run(url))
