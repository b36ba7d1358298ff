"""FlowFabric: a durable execution engine on Valkey Functions."""

from flowfabric.backends import open_backend
from flowfabric.backends.ports import EngineBackend
from flowfabric.config import Settings
from flowfabric.errors import FlowFabricError

__version__ = "0.1.0"

__all__ = ["EngineBackend", "FlowFabricError", "Settings", "__version__", "open_backend"]
