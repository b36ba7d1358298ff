"""Turns within a concurrency key, and room in a lane.

As many executions of a key are queued as may run, the best of them; the others wait beside the queue.
`lib/claim/key_turns.lua` and `lib/claim/lanes.lua` state the same rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flowfabric.core.states import LaneState
from flowfabric.errors import InvalidInput

DEFAULT_KEY_CONCURRENCY = 1
# One step queues at most this many of a key; the rest follows with the next step.
TURNS_AT_ONCE = 100


class Place(NamedTuple):
    """An execution in the order of its lane; the lowest place is first."""

    score: int
    execution_id: str


class KeyTurns(NamedTuple):
    """One concurrency key: its limit, and its executions that need the same capabilities, in order.

    running counts executions with any capabilities, because the limit is for the whole key.
    """

    limit: int = DEFAULT_KEY_CONCURRENCY
    running: int = 0
    queued: Sequence[Place] = ()
    waiting: Sequence[Place] = ()

    @property
    def room(self) -> int:
        """How many more may be queued."""
        return self.limit - self.running - len(self.queued)


class Turn(NamedTuple):
    """Whether an execution is queued, and the queued execution that makes room for it."""

    is_queued: bool
    displaced: str | None = None


def enter(turns: KeyTurns, score: int) -> Turn:
    """An execution of the key becomes eligible. With room, the best is queued; without, a better one displaces."""
    if turns.room > 0:
        return Turn(not turns.waiting or score <= turns.waiting[0].score)
    if turns.queued and turns.queued[-1].score > score:
        return Turn(is_queued=True, displaced=turns.queued[-1].execution_id)
    return Turn(is_queued=False)


def pass_on(turns: KeyTurns) -> list[str]:
    """An execution of the key moved: the waiting executions that are queued now, best first."""
    count = max(0, min(turns.room, TURNS_AT_ONCE))
    return [place.execution_id for place in turns.waiting[:count]]


def may_start(turns: KeyTurns) -> bool:
    """Whether the key has room for a claim. A queued execution of a full key waits again."""
    return turns.running < turns.limit


def lane_room(share: int | None, active: int) -> int | None:
    """How many more of a lane may start in a partition; None without a limit."""
    return None if share is None else share - active


def wakes_lane(share: int | None, state: LaneState, active: int, stopped: int) -> bool:
    """Whether `stopped` endings gave room to a lane that was full, so that workers must hear of it."""
    if share is None or state in (LaneState.PAUSED, LaneState.DISABLED):
        return False
    return 0 < share - active <= stopped


def lane_shares(max_concurrency: int, shards: Sequence[str]) -> dict[str, int]:
    """Split the limit of a lane over its shards.

    A shard without a share would block its executions forever, so a limit below the number of shards is refused.
    """
    if max_concurrency < len(shards):
        problem = (
            f"must be at least {len(shards)}, one for each shard of the lane (lane_shards); "
            "for fewer, submit the executions with one concurrency_key"
        )
        raise InvalidInput("max_concurrency", max_concurrency, problem)
    each, rest = divmod(max_concurrency, len(shards))
    return {shard: each + (1 if at < rest else 0) for at, shard in enumerate(shards)}
