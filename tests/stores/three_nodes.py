"""A cluster of three nodes, among which lanes and flows are spread."""

from __future__ import annotations

from tests.servers import start_three_node_cluster
from tests.valkey.started import StartedStore


class ThreeNodesStore(StartedStore):
    name = "three_nodes"
    nth_life = 2
    starter = staticmethod(start_three_node_cluster)


STORE = ThreeNodesStore
