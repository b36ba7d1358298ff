"""The engine: expired leases, delays, timeouts, deadlines, retention, index repair and wakeups."""

from flowfabric.engine.backoff import SetAsideItem
from flowfabric.engine.service import ServiceStatus
from flowfabric.engine.settings import EngineSettings
from flowfabric.engine.supervisor import Engine, EngineStatus

__all__ = ["Engine", "EngineSettings", "EngineStatus", "ServiceStatus", "SetAsideItem"]
