"""EngineBackend: one store with all its ports."""

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
    logs,
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
    logs.LogPort,
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
    """One store: all ports, its partition counts, and `close`."""

    @property
    def partitions(self) -> PartitionConfig:
        """The partition counts this store was set up with."""
        ...

    def within(self, namespaces: Sequence[Namespace]) -> EngineBackend:
        """The same store, limited to the executions and flows of these namespaces.

        A tenant sees nothing outside its namespaces and cannot create anything there. Each call carries the
        namespaces and the store checks them inside the atomic step. Calls that affect the whole store (queues,
        workers, limits, upkeep) are refused. Closing the store closes this view.
        """
        ...

    async def kept_secret(self) -> SigningSecret | None:
        """The waitpoint secret that an embedded store keeps beside its data; None for every other store."""
        ...

    async def close(self) -> None:
        """Close the connections, and stop an embedded server that no other process uses."""
        ...
