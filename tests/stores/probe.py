"""What a test may do with a store beside calling its ports.

A kind of store is one module of this folder with a class `STORE`. It says how the store is started, how a test opens it
empty, and what it lacks. `tests/conformance` knows these two protocols and the ports, and nothing else of any store.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

from flowfabric.backends.ports import EngineBackend
from flowfabric.core.ids import BudgetId, ExecutionId, WorkerId, WorkerInstanceId
from flowfabric.core.partition import Partition
from flowfabric.core.states import StateVector

# A test names what it needs with `@pytest.mark.needs(...)`; a store that lacks it gives the reason in `lacks`.
CAPABILITIES: Final = {
    "chosen_namespaces": "a backend can be narrowed to namespaces by its caller",
    "chosen_ids": "a claim of one execution takes the lease and attempt ids that its caller chose",
    "own_process": "the ports work in the process of the test, so that a test can replace a part of them",
}


class Clock(Protocol):
    """The store's time. It stands still until the test moves it."""

    @property
    def now_ms(self) -> int: ...

    async def set(self, now_ms: int) -> None: ...

    async def advance(self, ms: int) -> None: ...


class Probe(Protocol):
    """One store as one test holds it: its ports, its clock, and a look inside that no port gives."""

    @property
    def backend(self) -> EngineBackend: ...

    @property
    def clock(self) -> Clock: ...

    async def flush(self) -> None:
        """Delete everything that is stored; the clock stays."""
        ...

    async def dump(self) -> Mapping[Any, Any]:
        """Everything that is stored. Two dumps are equal when nothing was written in between."""
        ...

    async def check(self) -> dict[str, StateVector]:
        """Raise on the first broken invariant of an execution; return the state of every execution."""
        ...

    async def check_flows(self) -> None:
        """Raise on the first broken invariant of a flow."""
        ...

    async def another(self) -> EngineBackend:
        """Another client of the same store, with connections of its own; the caller closes it."""
        ...

    async def cut(self) -> None:
        """Cut every connection to the store, as a network does."""
        ...

    async def waiting(self) -> int:
        """Return how many reads wait inside the store for something to happen."""
        ...

    async def until_waiting(self, count: int = 1) -> None:
        """Return when so many reads wait."""
        ...

    async def close(self) -> None: ...

    # States that no sequence of calls leads to, and counts that no port tells.

    async def place_grant(
        self, execution_id: ExecutionId, worker_id: WorkerId, instance: WorkerInstanceId, until: int
    ) -> None:
        """Give the worker a claim grant, whatever state the execution is in."""
        ...

    async def withdraw_grant(self, execution_id: ExecutionId) -> None:
        """Remove the claim grant as if none had been given."""
        ...

    async def open_dependency(self, execution_id: ExecutionId) -> None:
        """Make the execution a member of some flow, with an edge into it that nothing resolves."""
        ...

    async def close_dependency(self, execution_id: ExecutionId) -> None:
        """Satisfy that edge."""
        ...

    async def left_behind(self) -> list[str]:
        """Return what is still stored, other than logs, settings and what expires by itself."""
        ...

    async def pay_and_die(self, partition: Partition, budget_id: BudgetId) -> None:
        """Pay what the partition owes to the budget, as a process that dies before it strikes the debts off."""
        ...

    async def count_signals(self, execution_id: ExecutionId) -> int:
        """Return how many signals of the execution are kept."""
        ...

    async def debts(self, partition: Partition) -> list[tuple[str, int, bool]]:
        """Return what ended or lost attempts still owe to limits: execution, lease epoch, whether spending is owed."""
        ...


class Store(Protocol):
    """A kind of store, started once for a test run."""

    name: ClassVar[str]
    lacks: ClassVar[Mapping[str, str]]
    nth_life: ClassVar[int]  # of random lives, every nth runs here

    def start(self, directory: Path) -> None: ...

    def stop(self) -> None: ...

    async def open(self, *, lane_shards: int = 1, holds_clock: bool = True) -> Probe:
        """Empty the store and open it. Without `holds_clock` its time passes."""
        ...


@runtime_checkable
class HasUrl(Protocol):
    """A store that another program can open by its URL."""

    url: str
