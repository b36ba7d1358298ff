"""One store: all ports together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from flowfabric.backends.ports.batch import BatchPort
from flowfabric.backends.ports.budgets import BudgetPort, BudgetUpkeepPort
from flowfabric.backends.ports.events import EventPort
from flowfabric.backends.ports.executions import ExecutionPort
from flowfabric.backends.ports.flows import EdgePort, FlowEventPort, FlowPort, FlowReadPort
from flowfabric.backends.ports.lanes import LanePort
from flowfabric.backends.ports.leases import LeasePort
from flowfabric.backends.ports.quotas import AdmissionPort, QuotaPort, ReconcilePort
from flowfabric.backends.ports.reads import ListingPort, ReadPort
from flowfabric.backends.ports.scheduling import SchedulingPort
from flowfabric.backends.ports.steps import StepPort
from flowfabric.backends.ports.streams import StreamPort
from flowfabric.backends.ports.upkeep import MaintenancePort, RetentionPort
from flowfabric.backends.ports.waits import SecretPort, SignalPort, SuspensionPort
from flowfabric.backends.ports.wakeups import WakeupPort
from flowfabric.backends.ports.workers import WorkerPort
from flowfabric.core.ids import Namespace
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.tokens import SigningSecret


class EngineBackend(
    ExecutionPort,
    LeasePort,
    SchedulingPort,
    LanePort,
    SuspensionPort,
    SignalPort,
    SecretPort,
    StepPort,
    BudgetPort,
    BudgetUpkeepPort,
    QuotaPort,
    AdmissionPort,
    ReconcilePort,
    StreamPort,
    FlowPort,
    EdgePort,
    FlowReadPort,
    FlowEventPort,
    BatchPort,
    ReadPort,
    EventPort,
    ListingPort,
    RetentionPort,
    WakeupPort,
    WorkerPort,
    MaintenancePort,
    Protocol,
):
    """One store: all ports, and its own end."""

    @property
    def partitions(self) -> PartitionConfig:
        """The partition counts this store was set up with."""
        ...

    def within(self, namespaces: Sequence[Namespace]) -> EngineBackend:
        """The store as a tenant sees it: what is not of these namespaces is not there, and cannot be made.

        Each call carries the namespaces, and the atomic step itself looks at them. What serves the whole store (queues,
        workers, limits, upkeep) is refused. It is closed with the store.
        """
        ...

    async def kept_secret(self) -> SigningSecret | None:
        """The waitpoint secret that a store of our own keeps beside its data; None: others give a store its secret."""
        ...

    async def close(self) -> None:
        """Let go of connections, and of an embedded server when nobody else uses it."""
        ...
