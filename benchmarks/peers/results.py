"""The runs of all systems, taken in turns, and the figures of one beside those of another."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.figures import Run, Spread, in_turn, ratio
from benchmarks.peers.driver import ProgramFailed
from benchmarks.peers.systems import System

Value = Callable[[Run], float]


def per_second(run: Run) -> float:
    return run.tasks / run.seconds


def worker_us(run: Run) -> float:
    return run.cpu_us / run.tasks


def server_us(run: Run) -> float:
    return run.server_us / run.tasks


@dataclass
class Results:
    """By system and role one run a repetition; a system that failed once has none, but the reason."""

    runs: dict[str, dict[str, list[Run]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    repetitions: int = 0

    def add(self, system: str, runs: dict[str, Run]) -> None:
        for role, run in runs.items():
            self.runs.setdefault(system, {}).setdefault(role, []).append(run)

    def fail(self, system: str, reason: str) -> None:
        self.runs.pop(system, None)
        self.failures[system] = reason

    def values(self, system: str, role: str, value: Value) -> list[float]:
        return [value(run) for run in self.runs.get(system, {}).get(role, ())]

    def spread(self, system: str, role: str, value: Value) -> Spread | None:
        values = self.values(system, role, value)
        return Spread.of(values) if values else None

    def ratio(self, these: tuple[str, str], those: tuple[str, str], value: Value) -> Spread | None:
        """Of one (system, role) to another; None when one of them was not measured."""
        mine, theirs = self.values(*these, value), self.values(*those, value)
        return ratio(mine, theirs) if mine and theirs else None

    def facts(self) -> dict[str, Any]:
        return {
            system: {role: [asdict(run) for run in taken] for role, taken in by_role.items()}
            for system, by_role in self.runs.items()
        }


async def take_turns(
    systems: Sequence[System],
    repetitions: int,
    budget_s: float,
    turn: Callable[[System], Awaitable[dict[str, Run]]],
    clock: Callable[[], float] = time.monotonic,
) -> Results:
    """At least one repetition, and then as many of those wanted as fit into the budget."""
    results, begin = Results(), clock()
    for number in range(repetitions):
        if number and (clock() - begin) * (number + 1) > budget_s * number:  # if it takes as long as those before
            break
        results.repetitions += 1
        for system in in_turn(systems, number):
            if system.name in results.failures:
                continue
            try:
                results.add(system.name, await turn(system))
            except ProgramFailed as failure:
                results.fail(system.name, str(failure))
    return results
