"""The partitions in use, the live replicas, and the partitions that this engine owns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from flowfabric.core.partition import Partition
from flowfabric.engine.shares import owner, share_of


class Territory:
    """The share of one replica. Until it sees others it owns everything; overlapping shares are safe."""

    def __init__(self, replica_id: str) -> None:
        self.replica_id = replica_id
        self.replicas: tuple[str, ...] = (replica_id,)
        self.in_use: tuple[Partition, ...] = ()
        self.own: tuple[Partition, ...] = ()
        self._watchers: list[Callable[[], None]] = []

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` when the set of owned partitions changes."""
        self._watchers.append(changed)

    def hear(self, replicas: Collection[str]) -> bool:
        """Record the live replicas; return whether they changed."""
        living = tuple(sorted(replicas))
        if self.replicas == living:
            return False
        self.replicas = living
        self._divide()
        return True

    def find(self, partitions: Sequence[Partition]) -> None:
        """Record the partitions in use."""
        if self.in_use != tuple(partitions):
            self.in_use = tuple(partitions)
            self._divide()

    def add(self, partition: Partition) -> None:
        """Record a partition that came into use."""
        if partition not in self.in_use:
            self.find((*self.in_use, partition))

    def has_duty(self, name: str) -> bool:
        """Whether this replica runs a service that only one replica runs for the whole store."""
        return owner(f"duty:{name}", self.replicas) == self.replica_id

    def _divide(self) -> None:
        share = share_of(self.replica_id, (partition.tag for partition in self.in_use), self.replicas)
        self.own = tuple(partition for partition in self.in_use if partition.tag in share)
        for changed in self._watchers:
            changed()
