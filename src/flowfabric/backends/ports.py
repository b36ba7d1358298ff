"""What a store must do, split by noun. Every method is one atomic step and shows no connection, key or transaction.

The first line of each method states its transition; docs/explanation/state-machine.md draws them all. Every method
raises an error of `flowfabric.errors`; a refused call has written nothing (G4).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from flowfabric.backends.budget_ports import BudgetPort, BudgetUpkeepPort
from flowfabric.backends.flow_ports import EdgePort, FlowEventPort, FlowPort, FlowReadPort
from flowfabric.backends.quota_ports import AdmissionPort, QuotaPort, ReconcilePort
from flowfabric.backends.step_ports import StepPort
from flowfabric.backends.stream_ports import StreamPort
from flowfabric.backends.suspension_ports import SecretPort, SignalPort, SuspensionPort
from flowfabric.core import batch as b
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId, Namespace, WorkerInstanceId
from flowfabric.core.partition import Partition, PartitionConfig
from flowfabric.core.states import PublicState
from flowfabric.core.tokens import SigningSecret


class ExecutionPort(Protocol):
    """The life of an execution."""

    async def create_execution(self, args: c.CreateExecutionArgs) -> c.CreateExecutionResult:
        """Accept an execution: absent -> waiting, or delayed. The same id or idempotency key is a duplicate."""
        ...

    async def complete_execution(self, args: c.CompleteExecutionArgs) -> c.CompleteExecutionResult:
        """End the running attempt with success: active -> completed. Repeated with its fence it answers the same."""
        ...

    async def fail_execution(self, args: c.FailExecutionArgs) -> c.FailExecutionResult:
        """End the running attempt with a failure: active -> delayed until its retry, or failed."""
        ...

    async def cancel_execution(self, args: c.CancelExecutionArgs) -> c.CancelExecutionResult:
        """End an execution on request: any live state -> cancelled. Needs the fence or an operator's override."""
        ...

    async def delay_execution(self, args: c.DelayExecutionArgs) -> c.DelayExecutionResult:
        """Give the lease back and go on later with the same attempt: active -> delayed, or waiting when due."""
        ...

    async def move_to_waiting_children(self, args: c.MoveToWaitingChildrenArgs) -> c.MoveToWaitingChildrenResult:
        """Give the lease back until open dependencies are met: active -> waiting_children. Refused with none open."""
        ...

    async def expire_execution(self, args: c.ExpireExecutionArgs) -> c.ExpireExecutionResult:
        """Apply a time-out that is due: a deadline ends the execution, an attempt time-out fails the attempt."""
        ...

    async def replay_execution(self, args: c.ReplayExecutionArgs) -> c.ReplayExecutionResult:
        """Run a finished execution again: terminal -> waiting; a member may wait for its dependencies first."""
        ...

    async def change_priority(self, args: c.ChangePriorityArgs) -> c.ChangePriorityResult:
        """Move an eligible execution within its lane."""
        ...

    async def update_progress(self, args: c.UpdateProgressArgs) -> c.UpdateProgressResult:
        """Note how far the running attempt is."""
        ...

    async def set_execution_tags(self, args: c.SetExecutionTagsArgs) -> c.SetExecutionTagsResult:
        """Set labels of an execution."""
        ...


class LeasePort(Protocol):
    """Who owns the running attempt."""

    async def claim_execution(self, args: c.ClaimExecutionArgs) -> c.ClaimExecutionResult:
        """Start a new attempt with a grant: waiting -> active."""
        ...

    async def claim_resumed_execution(self, args: c.ClaimResumedExecutionArgs) -> c.ClaimResumedExecutionResult:
        """Go on with an interrupted attempt, with a grant: waiting -> active."""
        ...

    async def issue_grant_and_claim(self, args: c.IssueGrantAndClaimArgs) -> c.IssueGrantAndClaimResult:
        """Claim in one step, a new attempt or the interrupted one: waiting -> active."""
        ...

    async def reclaim_execution(self, args: c.ReclaimExecutionArgs) -> c.ReclaimExecutionResult:
        """Start a new attempt where a lease was lost, with a grant: active -> active, or failed at the cap."""
        ...

    async def renew_lease(self, args: c.RenewLeaseArgs) -> c.RenewLeaseResult:
        """Extend the lease its holder still has."""
        ...

    async def mark_lease_expired_if_due(self, args: c.MarkLeaseExpiredArgs) -> c.MarkLeaseExpiredResult:
        """Note that a lease ran out, so that the execution can be reclaimed."""
        ...

    async def revoke_lease(self, args: c.RevokeLeaseArgs) -> c.RevokeLeaseResult:
        """Take the lease away, so that the execution can be reclaimed."""
        ...


class SchedulingPort(Protocol):
    """Who may start what, and when."""

    async def issue_claim_grant(self, args: c.IssueClaimGrantArgs) -> c.IssueClaimGrantResult:
        """Let one worker claim one eligible execution within a short time."""
        ...

    async def issue_reclaim_grant(self, args: c.IssueReclaimGrantArgs) -> c.IssueReclaimGrantResult:
        """Let one worker take over an execution whose lease was lost; at the cap the execution fails instead."""
        ...

    async def block_execution_for_admission(self, args: c.BlockExecutionArgs) -> c.BlockExecutionResult:
        """Hold an execution back for a named reason: runnable -> blocked."""
        ...

    async def unblock_execution(self, args: c.UnblockExecutionArgs) -> c.UnblockExecutionResult:
        """Let a held-back execution go on: blocked -> waiting, or what it still waits for."""
        ...

    async def promote_delayed(self, args: c.PromoteDelayedArgs) -> c.PromoteDelayedResult:
        """Make a delayed execution eligible once its time has come: delayed -> waiting."""
        ...

    async def claim_for_worker(self, args: c.ClaimForWorkerArgs) -> c.ClaimForWorkerOutcome:
        """Grant the best eligible execution of a lane that the worker can run; with several shards, of one of them."""
        ...

    async def scan_eligible_executions(self, args: c.ScanEligibleArgs) -> list[ExecutionId]:
        """The executions of a lane in one partition that may start, the next one first."""
        ...

    async def block_route(self, args: c.BlockRouteArgs) -> c.BlockRouteOutcome:
        """Set an execution aside that no worker can run: runnable -> blocked. An operator's tool; no claim does it."""
        ...


class LanePort(Protocol):
    """Which lanes there are, and what they let through. Settings take effect partition by partition."""

    async def set_lane_state(self, args: c.SetLaneStateArgs) -> c.SetLaneStateResult:
        """Say whether a lane's executions may start."""
        ...

    async def configure_lane(self, args: c.ConfigureLaneArgs) -> c.ConfigureLaneResult:
        """Say how many executions of a lane run at once, in all and of one key, and how age counts."""
        ...

    async def describe_lane(self, lane_id: LaneId) -> c.LaneSettings:
        """What was set for a lane."""
        ...

    async def list_lanes(self, args: c.ListLanesArgs) -> c.ListLanesPage:
        """The lanes that have executions, over all partitions, by name."""
        ...


class ReadPort(Protocol):
    """Looking without touching."""

    async def describe_execution(self, execution_id: ExecutionId) -> c.ExecutionSnapshot | None:
        """The read model with lease and attempt summaries; None when there is no such execution."""
        ...

    async def get_execution(self, execution_id: ExecutionId) -> c.ExecutionInfo | None:
        """The whole state vector and times; None when there is no such execution."""
        ...

    async def get_execution_state(self, execution_id: ExecutionId) -> PublicState | None:
        """The public state alone."""
        ...

    async def get_execution_result(self, execution_id: ExecutionId) -> c.ExecutionResult | None:
        """The result of a completed execution; None while there is none."""
        ...

    async def read_execution_context(self, execution_id: ExecutionId) -> c.ExecutionContext:
        """What a handler needs: kind, payload, labels."""
        ...

    async def explain_execution(self, execution_id: ExecutionId) -> c.Explanation:
        """All that bears on why an execution does or does not run; `scheduling.explain` makes a sentence of it."""
        ...

    async def list_attempts(
        self, execution_id: ExecutionId, *, from_index: int = 0, limit: int = 100
    ) -> list[c.AttemptRecord]:
        """The attempts of an execution, oldest first."""
        ...


class BatchPort(Protocol):
    """Many at once. Each item has its own outcome: a refused one is an error in the list and spoils no other."""

    async def submit_executions(self, batch: Sequence[c.CreateExecutionArgs]) -> list[b.SubmitOutcome]:
        """create_execution for each; one call a partition."""
        ...

    async def claim_executions(self, args: b.ClaimExecutionsArgs) -> list[b.ClaimOutcome]:
        """Claim up to `count` of a lane that the worker can run, or the named ones: waiting -> active.

        The best come first; with several shards, within each of them.
        """
        ...

    async def finish_executions(self, args: b.FinishExecutionsArgs) -> b.FinishExecutionsResult:
        """complete_execution and fail_execution mixed, renew_lease for others, and the next claim, in one step."""
        ...

    async def run_due_work(self, args: b.RunDueWorkArgs) -> b.DueWork:
        """Requeue lost leases, promote delays, apply time-outs and deadlines, close waitpoints of one partition."""
        ...


class EventPort(Protocol):
    """What happened, and waiting for what will."""

    async def read_events(self, args: c.ReadEventsArgs) -> c.EventPage:
        """Lines of the event logs, oldest first: of one partition, or of all of them merged by time."""
        ...

    async def history(self, execution_id: ExecutionId, *, cursor: str | None = None, limit: int = 100) -> c.EventPage:
        """The events of one execution, oldest first, as far back as its partition's log goes."""
        ...

    async def wait_for_execution(self, execution_id: ExecutionId, *, timeout_ms: int) -> PublicState | None:
        """Wait until the execution ends and say how; None when it had not within `timeout_ms`."""
        ...

    def tail_events(self, execution_id: ExecutionId, *, cursor: str | None = None) -> AsyncIterator[c.Event]:
        """The events of one execution as they happen, until it has ended; `cursor` is that of the last one seen."""
        ...


class ListingPort(Protocol):
    """Which executions there are, and how many."""

    async def list_executions(self, args: c.ListExecutionsArgs) -> c.ListExecutionsPage:
        """Executions that match, over all partitions, by creation."""
        ...

    async def count_executions(self, lane_id: LaneId | None = None) -> list[c.LaneCounts]:
        """How many executions each lane, or this one, has in each public state, and how long the oldest waits."""
        ...


class RetentionPort(Protocol):
    """Deleting what is finished."""

    async def trim_executions(self, args: c.TrimExecutionsArgs) -> c.TrimExecutionsResult:
        """Delete finished executions with everything that belongs to them: terminal -> absent."""
        ...


OnHanded: TypeAlias = Callable[[str, bytes], None]  # the key of a parked claim, and what its `read` understands


class WorkListener(Protocol):
    """Hears of queues that have work."""

    async def wait(self) -> frozenset[tuple[LaneId, Partition]]:
        """Return when work was announced since the last call: where. An empty set means anywhere: look everywhere."""
        ...


class WakeupPort(Protocol):
    """Being told of work instead of asking for it."""

    def listen_for_work(
        self,
        lane_ids: Collection[LaneId],
        capabilities: Collection[str] = (),
        *,
        worker_instance_id: WorkerInstanceId | None = None,
        on_handed: OnHanded | None = None,
    ) -> AbstractAsyncContextManager[WorkListener]:
        """Hear of work of these lanes that the capabilities suffice for, from the moment this is entered.

        The first wait returns at once with an empty set, as does the first one after a lost connection. What comes for
        parked claims of the worker goes to `on_handed` meanwhile; after a lost connection they are to be recalled.
        """
        ...

    async def announce_work(self, partition: Partition) -> int:
        """Announce every queue of a partition that has work again: the safety net for lost messages."""
        ...


class WorkerPort(Protocol):
    """Which workers there are."""

    async def register_worker(self, args: c.RegisterWorkerArgs) -> c.RegisterWorkerResult:
        """Make a worker known, or what it offers now."""
        ...

    async def heartbeat_worker(self, args: c.HeartbeatWorkerArgs) -> c.HeartbeatWorkerResult:
        """Keep a worker alive."""
        ...

    async def mark_worker_dead(self, args: c.MarkWorkerDeadArgs) -> c.MarkWorkerDeadResult:
        """Take a worker off the list; what it runs is lost with its leases, not before."""
        ...

    async def list_workers(self, args: c.ListWorkersArgs) -> c.ListWorkersPage:
        """Live workers, by instance id."""
        ...

    async def expire_workers(self, *, limit: int = 100) -> int:
        """Forget workers that were silent for too long; how many."""
        ...


class MaintenancePort(Protocol):
    """What an engine needs besides the work itself."""

    async def hold_share(self, args: c.HoldShareArgs) -> c.EngineShares:
        """Live for a while, and learn who else does."""
        ...

    async def partitions_in_use(self) -> list[Partition]:
        """The partitions that hold executions."""
        ...

    async def next_due(self, partition: Partition) -> c.NextDue:
        """When the partition's earliest lease, delay, time-out or deadline is due."""
        ...

    async def repair_indexes(self, args: c.RepairIndexesArgs) -> c.IndexesRepaired:
        """Put right index entries that do not agree with their records."""
        ...

    async def reevaluate_blocked(self, args: c.ReevaluateBlockedArgs) -> c.BlockedReevaluated:
        """Let go what is held back for a reason that is gone: blocked -> waiting."""
        ...


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
