"""Lanes: list them, pause or drain them, and set their concurrency."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from flowfabric.core.contracts.fields import AgeingMs, Checked, Concurrency, Outcome, ScanLimit
from flowfabric.core.ids import LaneId
from flowfabric.core.states import LaneState


class SetLaneStateArgs(Checked, frozen=True, kw_only=True):
    """Pause, drain, disable or reopen a lane on every partition."""

    lane_id: LaneId
    state: LaneState


class LaneStateSet(Outcome, frozen=True, kw_only=True, tag="set"):
    partitions: int


SetLaneStateResult: TypeAlias = LaneStateSet


class ConfigureLaneArgs(Checked, frozen=True, kw_only=True):
    """All settings of a lane, on every partition; None means no limit, or the default.

    max_concurrency is divided evenly among the lane's shards, so it must be at least `lane_shards`. The
    partition of a flow counts the flow's members separately.
    """

    lane_id: LaneId
    max_concurrency: Concurrency | None = None  # concurrent executions
    key_concurrency: Concurrency | None = None  # concurrent executions per concurrency key; None: 1
    ageing_ms_per_priority: AgeingMs | None = None  # waiting time that outweighs one step of priority; None: no ageing
    shared_queue: bool = False  # work that needs capabilities goes to the queue that schedulers of other programs read


class LaneConfigured(Outcome, frozen=True, kw_only=True, tag="configured"):
    partitions: int


ConfigureLaneResult: TypeAlias = LaneConfigured


class LaneSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a lane."""

    lane_id: LaneId
    state: LaneState = LaneState.ACTIVE
    max_concurrency: int | None = None
    key_concurrency: int | None = None
    ageing_ms_per_priority: int | None = None
    shared_queue: bool = False


class ListLanesArgs(Checked, frozen=True, kw_only=True):
    """Lanes that have executions, by name, after `cursor`."""

    cursor: LaneId | None = None
    limit: ScanLimit = 100


class ListLanesPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of lanes; next_cursor is None on the last page."""

    lanes: tuple[LaneId, ...] = ()
    next_cursor: LaneId | None = None
