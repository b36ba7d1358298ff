"""A cluster of one node, which refuses calls that reach across slots."""

from __future__ import annotations

from tests.servers import start_one_node_cluster
from tests.valkey.started import StartedStore


class ClusterStore(StartedStore):
    name = "cluster"
    nth_life = 2
    starter = staticmethod(start_one_node_cluster)


STORE = ClusterStore
