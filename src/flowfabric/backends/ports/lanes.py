"""Lanes: pause, limit and list them."""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.ids import LaneId


class LanePort(Protocol):
    """Which lanes there are, and what they let through. Settings take effect partition by partition."""

    async def set_lane_state(self, args: c.SetLaneStateArgs) -> c.SetLaneStateResult:
        """Say whether a lane's executions may start."""
        ...

    async def configure_lane(self, args: c.ConfigureLaneArgs) -> c.ConfigureLaneResult:
        """Say how many executions of a lane run at once, in all and of one key, and how age counts."""
        ...

    async def describe_lane(self, lane_id: LaneId) -> c.LaneSettings:
        """What was set for a lane."""
        ...

    async def list_lanes(self, args: c.ListLanesArgs) -> c.ListLanesPage:
        """The lanes that have executions, over all partitions, by name."""
        ...
