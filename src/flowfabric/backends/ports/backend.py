"""One store: all ports together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from flowfabric.backends.ports import (
    batch,
    budgets,
    events,
    executions,
    flows,
    lanes,
    leases,
    quotas,
    reads,
    scheduling,
    steps,
    streams,
    upkeep,
    waits,
    wakeups,
    workers,
)
from flowfabric.core.ids import Namespace
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.tokens import SigningSecret


class EngineBackend(
    executions.ExecutionPort,
    leases.LeasePort,
    scheduling.SchedulingPort,
    lanes.LanePort,
    waits.SuspensionPort,
    waits.SignalPort,
    waits.SecretPort,
    steps.StepPort,
    budgets.BudgetPort,
    budgets.BudgetUpkeepPort,
    quotas.QuotaPort,
    quotas.AdmissionPort,
    quotas.ReconcilePort,
    streams.StreamPort,
    flows.FlowPort,
    flows.EdgePort,
    flows.FlowReadPort,
    flows.FlowEventPort,
    batch.BatchPort,
    reads.ReadPort,
    events.EventPort,
    reads.ListingPort,
    upkeep.RetentionPort,
    wakeups.WakeupPort,
    workers.WorkerPort,
    upkeep.MaintenancePort,
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
