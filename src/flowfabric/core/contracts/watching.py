"""Watching: an execution waits for the end of another one, in any partition."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from flowfabric.core.contracts.fields import Checked, Outcome
from flowfabric.core.ids import ExecutionId
from flowfabric.core.states import PublicState
from flowfabric.errors import InvalidInput


class WatchExecutionArgs(Checked, frozen=True, kw_only=True):
    """Let `watcher_id` be signalled when `execution_id` has ended; the state of both stays.

    The signal is `child_ended`, at the watcher's waitpoint with the key `child:<uuid of the execution>`.
    """

    execution_id: ExecutionId
    watcher_id: ExecutionId

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.watcher_id == self.execution_id:
            raise InvalidInput("watcher_id", self.watcher_id, "must be another execution")


class ExecutionWatched(Outcome, frozen=True, kw_only=True, tag="watching"):
    """The watcher will be signalled at the end."""

    public_state: PublicState


class WatchedHasEnded(Outcome, frozen=True, kw_only=True, tag="ended"):
    """It has ended already; no signal comes."""

    public_state: PublicState


WatchExecutionResult: TypeAlias = ExecutionWatched | WatchedHasEnded


class WatchedEnd(msgspec.Struct, frozen=True, kw_only=True):
    """An execution that has ended, and one that waits for it and was not told yet."""

    execution_id: ExecutionId
    watcher_id: ExecutionId
