"""What happens as time passes: lost leases, delays, time-outs, deadlines, retention, repairs, wake-ups."""

from flowfabric.engine.backoff import SetAsideItem
from flowfabric.engine.service import ServiceStatus
from flowfabric.engine.settings import EngineSettings
from flowfabric.engine.supervisor import Engine, EngineStatus

__all__ = ["Engine", "EngineSettings", "EngineStatus", "ServiceStatus", "SetAsideItem"]
