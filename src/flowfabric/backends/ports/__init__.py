"""The contract of a store, one port per noun.

Each method is one atomic step. Its signature shows no connection, key or transaction, so any store can
implement it. The first line of a docstring states the transition; docs/explanation/state-machine.md
draws all of them. Methods raise errors of `flowfabric.errors`, and a refused call writes nothing (G4).
"""

from flowfabric.backends.ports.backend import EngineBackend
from flowfabric.backends.ports.batch import BatchPort
from flowfabric.backends.ports.budgets import BudgetPort, BudgetUpkeepPort
from flowfabric.backends.ports.events import EventPort
from flowfabric.backends.ports.executions import ExecutionPort
from flowfabric.backends.ports.flows import EdgePort, FlowEventPort, FlowPort, FlowReadPort
from flowfabric.backends.ports.lanes import LanePort
from flowfabric.backends.ports.leases import LeasePort
from flowfabric.backends.ports.logs import LogPort
from flowfabric.backends.ports.quotas import AdmissionPort, QuotaPort, ReconcilePort
from flowfabric.backends.ports.reads import ListingPort, ReadPort
from flowfabric.backends.ports.scheduling import SchedulingPort
from flowfabric.backends.ports.steps import StepPort
from flowfabric.backends.ports.streams import StreamPort
from flowfabric.backends.ports.upkeep import MaintenancePort, RetentionPort
from flowfabric.backends.ports.waits import SecretPort, SignalPort, SuspensionPort
from flowfabric.backends.ports.wakeups import OnHanded, WakeupPort, WorkListener
from flowfabric.backends.ports.workers import WorkerPort

__all__ = [
    "AdmissionPort",
    "BatchPort",
    "BudgetPort",
    "BudgetUpkeepPort",
    "EdgePort",
    "EngineBackend",
    "EventPort",
    "ExecutionPort",
    "FlowEventPort",
    "FlowPort",
    "FlowReadPort",
    "LanePort",
    "LeasePort",
    "ListingPort",
    "LogPort",
    "MaintenancePort",
    "OnHanded",
    "QuotaPort",
    "ReadPort",
    "ReconcilePort",
    "RetentionPort",
    "SchedulingPort",
    "SecretPort",
    "SignalPort",
    "StepPort",
    "StreamPort",
    "SuspensionPort",
    "WakeupPort",
    "WorkListener",
    "WorkerPort",
]
