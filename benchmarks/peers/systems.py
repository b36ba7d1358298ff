"""Who is measured, and what each of them can do."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import install

OURS, BULLMQ, SAQ, TASKIQ = "flowfabric", "bullmq", "saq", "taskiq"
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class System:
    """One system: its program beside this file, the ways to submit (the first one fills the queue) and what else.

    It `works` when it has a worker here, and `reacts` when its latency is measured.
    """

    name: str
    program: str
    ways: tuple[str, ...]
    works: bool = True
    reacts: bool = True
    python: bool = True

    def command(self) -> list[str] | None:
        """How its program is started; None when it is not installed."""
        if self.name == OURS:
            return [sys.executable, "-m", f"benchmarks.peers.{self.program}"]
        folder = install.installed(self.name)
        if folder is None:
            return None
        if self.python:
            return [str(folder / "bin/python"), "-m", f"benchmarks.peers.{self.program}"]
        return ["node", str(HERE / self.program), str(folder)]


SYSTEMS = (
    System(OURS, "ours", ("bulk", "concurrent")),
    System(TASKIQ, "taskiq_stream", ("concurrent",)),
    System("dramatiq", "dramatiq_redis", ("one by one",), reacts=False),
    System(SAQ, "saq_redis", ("concurrent",), works=False, reacts=False),
    System(BULLMQ, "bullmq.mjs", ("bulk", "concurrent"), python=False),
)
