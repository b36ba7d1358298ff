"""FlowFabric: a durable execution engine on Valkey Functions."""

__version__ = "0.1.0"
