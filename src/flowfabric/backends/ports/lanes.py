"""Lanes: pause, limit and list them."""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.ids import LaneId


class LanePort(Protocol):
    """Lanes and their settings. A setting takes effect partition by partition."""

    async def set_lane_state(self, args: c.SetLaneStateArgs) -> c.SetLaneStateResult:
        """Open, pause, drain or disable a lane."""
        ...

    async def configure_lane(self, args: c.ConfigureLaneArgs) -> c.ConfigureLaneResult:
        """Set how many executions of a lane run at once, in total and per key, and how age affects the order."""
        ...

    async def describe_lane(self, lane_id: LaneId) -> c.LaneSettings:
        """The settings of a lane."""
        ...

    async def list_lanes(self, args: c.ListLanesArgs) -> c.ListLanesPage:
        """List the lanes that have executions, over all partitions, by name."""
        ...
