"""The Args and results of every port, one module per noun; import them from here."""

from __future__ import annotations

# fmt: off
# isort: off
from flowfabric.core.contracts.limits.attachments import (
    AdmissionsDrained, AttachLimitArgs, DrainAdmissionsArgs, LimitKind, LimitScope, LimitsReconciled,
    ReconcileLimitsArgs,
)
from flowfabric.core.contracts.limits.budgets import (
    BudgetAlreadySatisfied, BudgetCreated, BudgetHeldByOthers, BudgetLimitsSet, BudgetNotice, BudgetReleased,
    BudgetReserved, BudgetReset, BudgetStatus, CreateBudgetArgs, CreateBudgetResult, DueBudgetsReset, HardBreach,
    NothingToRelease, OnCrash, OnHardLimit, RecordSpendArgs, ReleaseBudgetArgs, ReleaseBudgetResult,
    ReportUsageAdminArgs, ReportUsageArgs, ReportUsageResult, ReserveBudgetArgs, ReserveBudgetResult, ResetBudgetArgs,
    ResetBudgetResult,
    SetBudgetLimitsArgs, SettleReservationArgs, SoftBreach, UsageAlreadyApplied, UsageCounted,
)
from flowfabric.core.contracts.flows.edges import (
    AllOfEdges, AnyOfEdges, ApplyDependencyToChildArgs, ApplyDependencyToChildResult, BlockedPromoted,
    DependencyAlreadyApplied, DependencyAlreadyResolved, DependencyApplied, DependencyEdgeStaged, DependencyImpossible,
    DependencyPending, DependencySatisfied, EdgeDependencyPolicy, EdgeDirection, EdgeGroupPolicyAlreadySet,
    EdgeGroupPolicySet, EdgeGroupSnapshot, EdgeSnapshot, EvaluateFlowEligibilityArgs, EvaluateFlowEligibilityResult,
    FlowEligibility, IncomingEdges, ListEdgesArgs, ListEdgesPage, OnSatisfied, OutgoingEdges,
    PromoteBlockedToEligibleArgs, PromoteBlockedToEligibleResult, QuorumOfEdges, ResolveDependencyArgs,
    ResolveDependencyResult, SetEdgeGroupPolicyArgs, SetEdgeGroupPolicyResult, StageDependencyEdgeArgs,
    StageDependencyEdgeResult,
)
from flowfabric.core.contracts.events import Event, EventKind, EventOwner, EventPage, ReadEventsArgs
from flowfabric.core.contracts.execution import (
    AlreadyTerminal, CancelExecutionArgs, CancelExecutionResult, CancelSource, ChangePriorityArgs, ChangePriorityResult,
    CompleteExecutionArgs, CompleteExecutionResult, CreateExecutionArgs, CreateExecutionResult, DelayExecutionArgs,
    DelayExecutionResult, DuplicateMode, ExecutionCancelled, ExecutionCompleted, ExecutionCreated, ExecutionDelayed,
    ExecutionDuplicate, ExecutionExpired, ExecutionReplaced, ExecutionReplayed, ExecutionRetried, ExpireExecutionArgs,
    ExpireExecutionResult, ExpireReason, FailExecutionArgs, FailExecutionResult, MoveToWaitingChildrenArgs,
    MoveToWaitingChildrenResult, MovedToWaitingChildren, NotDue, PriorityChanged, ProgressUpdated, ReplayExecutionArgs,
    ReplayExecutionResult, RetryExecutionArgs, RetryExecutionResult, RetryScheduled, SetExecutionTagsArgs,
    SetExecutionTagsResult, TagsSet, TerminalFailed, UpdateProgressArgs, UpdateProgressResult,
)
from flowfabric.core.contracts.failures import FailureDetail, FailureFrame
from flowfabric.core.contracts.flows.flow import (
    AddExecutionToFlowArgs, AddExecutionToFlowResult, CancelFlowArgs, CancelFlowHeader, CancelFlowResult,
    CancellationPolicy, CreateFlowArgs, CreateFlowResult, ExecutionAddedToFlow, ExecutionAlreadyMember, FailurePolicy,
    FlowAlreadyCreated, FlowAlreadyTerminal, FlowCancellationScheduled, FlowCancelled, FlowCreated, FlowMember,
    FlowPartiallyCancelled, FlowSnapshot, FlowState, FlowStatus, FlowSummary, ListFlowMembersArgs, ListFlowMembersPage,
    ListFlowsArgs, ListFlowsPage, SetFlowTagsArgs, SetFlowTagsResult,
)
from flowfabric.core.contracts.flows.graphs import (
    ExecutionInput, FlowAlreadySubmitted, FlowEdge, FlowGraph, FlowJoin, FlowSubmitted, GrowFlowArgs, GrowFlowResult,
    SubmitFlowArgs, SubmitFlowResult,
)
from flowfabric.core.contracts.forking import (
    ChangedStep, ExecutionForked, ForkExecutionArgs, ForkExecutionResult,
)
from flowfabric.core.contracts.lanes import (
    ConfigureLaneArgs, ConfigureLaneResult, LaneConfigured, LaneSettings, LaneStateSet, ListLanesArgs, ListLanesPage,
    SetLaneStateArgs, SetLaneStateResult,
)
from flowfabric.core.contracts.lease import (
    ClaimExecutionArgs, ClaimExecutionResult, ClaimResumedExecutionArgs, ClaimResumedExecutionResult, ClaimedExecution,
    ClaimedResumedExecution, GrantNotFound, IssueGrantAndClaimArgs, IssueGrantAndClaimResult, LeaseAlreadySatisfied,
    LeaseFence, LeaseMarkedExpired, LeaseRenewed, LeaseRequest, LeaseRevocation, MarkLeaseExpiredArgs,
    MarkLeaseExpiredResult, NotReclaimable, ReclaimCapExceeded, ReclaimExecutionArgs, ReclaimExecutionResult,
    ReclaimedExecution, RenewLeaseArgs, RenewLeaseResult, RevokeLeaseArgs, RevokeLeaseResult,
)
from flowfabric.core.contracts.listing import (
    ExecutionSummary, LaneCounts, ListExecutionsArgs, ListExecutionsPage, ListOrder,
)
from flowfabric.core.contracts.logs import (
    AppendLogsArgs, AppendLogsResult, LogEntry, LogPage, LogRecord, LogsAppended, ReadLogsArgs,
)
from flowfabric.core.contracts.maintenance import (
    BlockedReevaluated, EngineShares, HoldShareArgs, IndexesRepaired, NextDue, ReevaluateBlockedArgs, RepairIndexesArgs,
    WorkerOffer,
)
from flowfabric.core.contracts.limits.quotas import (
    AdmissionReleased, Admitted, AlreadyAdmitted, CheckAdmissionArgs, CheckAdmissionResult, ConcurrencyExceeded,
    ConfigureQuotaPolicyArgs, CreateQuotaPolicyArgs, CreateQuotaPolicyResult, QuotaKey, QuotaPolicyAlreadySatisfied,
    QuotaPolicyCreated, QuotaStatus, RateExceeded, ReleaseAdmissionArgs, ReleaseAdmissionResult,
)
from flowfabric.core.contracts.reads import (
    AttemptRecord, AttemptSummary, ExecutionContext, ExecutionInfo, ExecutionResult, ExecutionSnapshot, Explanation,
    LeaseSummary, StateSummary,
)
from flowfabric.core.contracts.retention import ExecutionsTrimmed, TrimExecutionsArgs, TrimExecutionsResult
from flowfabric.core.contracts.scheduling import (
    ADMISSION_REASONS, BlockExecutionArgs, BlockExecutionResult, BlockRouteArgs, BlockRouteOutcome, ClaimForWorkerArgs,
    ClaimForWorkerOutcome, ClaimGrant, ClaimGrantIssued, DelayedPromoted, ExecutionBlocked, ExecutionUnblocked,
    GrantRequest, IssueClaimGrantArgs, IssueClaimGrantResult, IssueReclaimGrantArgs, IssueReclaimGrantResult, NoWork,
    NotYetDue, NothingToPromote, PromoteDelayedArgs, PromoteDelayedResult, ReclaimGrant, ReclaimGrantIssued,
    ResumeGrant, RouteBlockRejected, RouteBlocked, ScanEligibleArgs, UnblockExecutionArgs, UnblockExecutionResult,
    WorkGranted,
)
from flowfabric.core.contracts.waits.rejections import RejectedSignal, RejectSignalsArgs, RejectSignalsResult
from flowfabric.core.contracts.waits.secrets import (
    ListWaitpointHmacKidsArgs, PartitionRotationOutcome, RotateWaitpointHmacSecretAllArgs,
    RotateWaitpointHmacSecretAllEntry, RotateWaitpointHmacSecretAllReport, RotateWaitpointHmacSecretArgs,
    RotateWaitpointHmacSecretOutcome, SecretAlreadySeeded, SecretRotated, SecretRotationFailed, SecretSeeded,
    SecretUnchanged, SeedOutcome, SeedWaitpointHmacSecretArgs, VerifyingKid, WaitpointHmacKids,
)
from flowfabric.core.contracts.waits.signals import (
    BufferSignalArgs, DeliverSignalArgs, ListResumeSignalsArgs, ListResumeSignalsPage, ResumeSignal, ResumeTriggered,
    SignalAccepted, SignalDuplicate, SignalEffect, SignalExecutionArgs, SignalOutcome, SignalScope,
)
from flowfabric.core.contracts.waits.steps import (
    ReadStepsArgs, ReadStepsPage, RecordStepArgs, RecordStepResult, StepAlreadyRecorded, StepKey, StepRecord,
    StepRecorded,
)
from flowfabric.core.contracts.streams import (
    AppendFrameArgs, AppendFrameResult, AppendFramesArgs, AppendFramesResult, FollowFramesArgs, Frame, FrameAppended,
    FramesAppended, LiveFrames, PatchKind, ReadFramesArgs, ReadFramesResult, StreamFrame, StreamFrames, StreamInfo,
    StreamMode, SummaryDocument, TailFramesArgs, Visibility,
)
from flowfabric.core.contracts.waits.suspension import (
    ExecutionResumed, ExecutionSuspended, ExpireSuspensionArgs, ExpireSuspensionResult, ListSuspendedArgs,
    ListSuspendedPage, ResumeExecutionArgs, ResumeExecutionResult, ResumePolicy, ResumeTarget, ResumeTrigger,
    SuspendExecutionArgs, SuspendExecutionResult, SuspendedExecutionEntry, SuspensionAlreadySatisfied,
    SuspensionExpired, SuspensionNotExpired, SuspensionReasonCode, SuspensionRequester,
)
from flowfabric.core.contracts.waits.waitpoints import (
    CloseWaitpointArgs, CloseWaitpointResult, CreatePendingWaitpointArgs, CreatePendingWaitpointResult, FreshWaitpoint,
    IssuedWaitpoint, ListPendingWaitpointsArgs, ListPendingWaitpointsPage, PendingWaitpoint, PendingWaitpointCreated,
    PendingWaitpointInfo, ReadWaitpointTokenArgs, WaitpointAlreadyClosed, WaitpointBinding, WaitpointClosed,
    WaitpointState,
)
from flowfabric.core.contracts.watching import (
    ExecutionWatched, WatchExecutionArgs, WatchExecutionResult, WatchedEnd, WatchedHasEnded,
)
from flowfabric.core.contracts.workers import (
    HeartbeatAccepted, HeartbeatWorkerArgs, HeartbeatWorkerResult, ListTasksArgs, ListTasksPage, ListWorkersArgs,
    ListWorkersPage, MarkWorkerDeadArgs, MarkWorkerDeadResult, RegisterWorkerArgs, RegisterWorkerResult, RegisteredTask,
    TaskEntry, WorkerInfo, WorkerMarkedDead, WorkerNotRegistered, WorkerRefreshed, WorkerRegistered,
)
from flowfabric.core.rules.flows.graph import DependencyKind, EdgeGroupState, EdgeState
# isort: on

__all__ = [
    "ADMISSION_REASONS", "AddExecutionToFlowArgs", "AddExecutionToFlowResult", "AdmissionReleased",
    "AdmissionsDrained",
    "Admitted", "AllOfEdges", "AlreadyAdmitted", "AlreadyTerminal", "AnyOfEdges", "AppendFrameArgs",
    "AppendFrameResult", "AppendFramesArgs", "AppendFramesResult", "AppendLogsArgs", "AppendLogsResult",
    "ApplyDependencyToChildArgs", "ApplyDependencyToChildResult", "AttachLimitArgs", "AttemptRecord", "AttemptSummary",
    "BlockExecutionArgs", "BlockExecutionResult", "BlockRouteArgs", "BlockRouteOutcome", "BlockedPromoted",
    "BlockedReevaluated", "BudgetAlreadySatisfied", "BudgetCreated", "BudgetHeldByOthers", "BudgetLimitsSet",
    "BudgetNotice", "BudgetReleased", "BudgetReserved", "BudgetReset", "BudgetStatus", "BufferSignalArgs",
    "CancelExecutionArgs", "CancelExecutionResult", "CancelFlowArgs", "CancelFlowHeader", "CancelFlowResult",
    "CancelSource", "CancellationPolicy", "ChangePriorityArgs", "ChangePriorityResult", "ChangedStep",
    "CheckAdmissionArgs", "CheckAdmissionResult", "ClaimExecutionArgs", "ClaimExecutionResult", "ClaimForWorkerArgs",
    "ClaimForWorkerOutcome", "ClaimGrant", "ClaimGrantIssued", "ClaimResumedExecutionArgs",
    "ClaimResumedExecutionResult", "ClaimedExecution",
    "ClaimedResumedExecution", "CloseWaitpointArgs", "CloseWaitpointResult", "CompleteExecutionArgs",
    "CompleteExecutionResult", "ConcurrencyExceeded", "ConfigureLaneArgs", "ConfigureLaneResult",
    "ConfigureQuotaPolicyArgs", "CreateBudgetArgs", "CreateBudgetResult", "CreateExecutionArgs",
    "CreateExecutionResult", "CreateFlowArgs", "CreateFlowResult", "CreatePendingWaitpointArgs",
    "CreatePendingWaitpointResult", "CreateQuotaPolicyArgs", "CreateQuotaPolicyResult", "DelayExecutionArgs",
    "DelayExecutionResult", "DelayedPromoted", "DeliverSignalArgs", "DependencyAlreadyApplied",
    "DependencyAlreadyResolved", "DependencyApplied", "DependencyEdgeStaged", "DependencyImpossible", "DependencyKind",
    "DependencyPending", "DependencySatisfied", "DrainAdmissionsArgs", "DueBudgetsReset", "DuplicateMode",
    "EdgeDependencyPolicy", "EdgeDirection", "EdgeGroupPolicyAlreadySet", "EdgeGroupPolicySet", "EdgeGroupSnapshot",
    "EdgeGroupState", "EdgeSnapshot", "EdgeState", "EngineShares", "EvaluateFlowEligibilityArgs",
    "EvaluateFlowEligibilityResult", "Event", "EventKind", "EventOwner", "EventPage", "ExecutionAddedToFlow",
    "ExecutionAlreadyMember", "ExecutionBlocked", "ExecutionCancelled", "ExecutionCompleted", "ExecutionContext",
    "ExecutionCreated", "ExecutionDelayed", "ExecutionDuplicate", "ExecutionExpired", "ExecutionForked",
    "ExecutionInfo", "ExecutionInput",
    "ExecutionReplaced", "ExecutionReplayed", "ExecutionResult", "ExecutionResumed", "ExecutionRetried",
    "ExecutionSnapshot", "ExecutionSummary", "ExecutionSuspended", "ExecutionUnblocked", "ExecutionWatched",
    "ExecutionsTrimmed", "ExpireExecutionArgs", "ExpireExecutionResult", "ExpireReason", "ExpireSuspensionArgs",
    "ExpireSuspensionResult", "Explanation", "FailExecutionArgs", "FailExecutionResult", "FailureDetail",
    "FailureFrame", "FailurePolicy", "FlowAlreadyCreated", "FlowAlreadySubmitted", "FlowAlreadyTerminal",
    "FlowCancellationScheduled", "FlowCancelled", "FlowCreated", "FlowEdge", "FlowEligibility", "FlowGraph", "FlowJoin",
    "FlowMember", "FlowPartiallyCancelled", "FlowSnapshot", "FlowState", "FlowStatus", "FlowSubmitted", "FlowSummary",
    "FollowFramesArgs", "ForkExecutionArgs", "ForkExecutionResult", "Frame", "FrameAppended", "FramesAppended",
    "FreshWaitpoint", "GrantNotFound", "GrantRequest", "GrowFlowArgs", "GrowFlowResult", "HardBreach",
    "HeartbeatAccepted", "HeartbeatWorkerArgs", "HeartbeatWorkerResult",
    "HoldShareArgs", "IncomingEdges", "IndexesRepaired", "IssueClaimGrantArgs", "IssueClaimGrantResult",
    "IssueGrantAndClaimArgs", "IssueGrantAndClaimResult", "IssueReclaimGrantArgs", "IssueReclaimGrantResult",
    "IssuedWaitpoint", "LaneConfigured", "LaneCounts", "LaneSettings", "LaneStateSet", "LeaseAlreadySatisfied",
    "LeaseFence", "LeaseMarkedExpired", "LeaseRenewed", "LeaseRequest", "LeaseRevocation", "LeaseSummary", "LimitKind",
    "LimitScope", "LimitsReconciled", "ListEdgesArgs", "ListEdgesPage", "ListExecutionsArgs", "ListExecutionsPage",
    "ListFlowMembersArgs", "ListFlowMembersPage", "ListFlowsArgs", "ListFlowsPage", "ListLanesArgs", "ListLanesPage",
    "ListOrder", "ListPendingWaitpointsArgs", "ListPendingWaitpointsPage", "ListResumeSignalsArgs",
    "ListResumeSignalsPage", "ListSuspendedArgs", "ListSuspendedPage", "ListTasksArgs", "ListTasksPage",
    "ListWaitpointHmacKidsArgs", "ListWorkersArgs", "ListWorkersPage", "LiveFrames", "LogEntry", "LogPage", "LogRecord",
    "LogsAppended", "MarkLeaseExpiredArgs", "MarkLeaseExpiredResult", "MarkWorkerDeadArgs", "MarkWorkerDeadResult",
    "MoveToWaitingChildrenArgs", "MoveToWaitingChildrenResult", "MovedToWaitingChildren", "NextDue", "NoWork", "NotDue",
    "NotReclaimable", "NotYetDue", "NothingToPromote", "NothingToRelease", "OnCrash", "OnHardLimit", "OnSatisfied",
    "OutgoingEdges", "PartitionRotationOutcome", "PatchKind", "PendingWaitpoint", "PendingWaitpointCreated",
    "PendingWaitpointInfo", "PriorityChanged", "ProgressUpdated", "PromoteBlockedToEligibleArgs",
    "PromoteBlockedToEligibleResult", "PromoteDelayedArgs", "PromoteDelayedResult", "QuorumOfEdges", "QuotaKey",
    "QuotaPolicyAlreadySatisfied", "QuotaPolicyCreated", "QuotaStatus", "RateExceeded", "ReadEventsArgs",
    "ReadFramesArgs", "ReadFramesResult", "ReadLogsArgs", "ReadStepsArgs", "ReadStepsPage", "ReadWaitpointTokenArgs",
    "ReclaimCapExceeded", "ReclaimExecutionArgs", "ReclaimExecutionResult", "ReclaimGrant", "ReclaimGrantIssued",
    "ReclaimedExecution", "ReconcileLimitsArgs", "RecordSpendArgs", "RecordStepArgs", "RecordStepResult",
    "ReevaluateBlockedArgs", "RegisterWorkerArgs", "RegisterWorkerResult", "RegisteredTask", "RejectSignalsArgs",
    "RejectSignalsResult", "RejectedSignal", "ReleaseAdmissionArgs",
    "ReleaseAdmissionResult", "ReleaseBudgetArgs", "ReleaseBudgetResult", "RenewLeaseArgs", "RenewLeaseResult",
    "RepairIndexesArgs", "ReplayExecutionArgs", "ReplayExecutionResult", "ReportUsageAdminArgs", "ReportUsageArgs",
    "ReportUsageResult", "ReserveBudgetArgs", "ReserveBudgetResult", "ResetBudgetArgs", "ResetBudgetResult",
    "ResolveDependencyArgs", "ResolveDependencyResult", "ResumeExecutionArgs", "ResumeExecutionResult", "ResumeGrant",
    "ResumePolicy", "ResumeSignal", "ResumeTarget", "ResumeTrigger", "ResumeTriggered", "RetryExecutionArgs",
    "RetryExecutionResult", "RetryScheduled",
    "RevokeLeaseArgs", "RevokeLeaseResult", "RotateWaitpointHmacSecretAllArgs", "RotateWaitpointHmacSecretAllEntry",
    "RotateWaitpointHmacSecretAllReport", "RotateWaitpointHmacSecretArgs", "RotateWaitpointHmacSecretOutcome",
    "RouteBlockRejected", "RouteBlocked", "ScanEligibleArgs", "SecretAlreadySeeded", "SecretRotated",
    "SecretRotationFailed", "SecretSeeded", "SecretUnchanged", "SeedOutcome", "SeedWaitpointHmacSecretArgs",
    "SetBudgetLimitsArgs", "SetEdgeGroupPolicyArgs", "SetEdgeGroupPolicyResult", "SetExecutionTagsArgs",
    "SetExecutionTagsResult", "SetFlowTagsArgs", "SetFlowTagsResult", "SetLaneStateArgs", "SetLaneStateResult",
    "SettleReservationArgs", "SignalAccepted", "SignalDuplicate", "SignalEffect", "SignalExecutionArgs",
    "SignalOutcome", "SignalScope", "SoftBreach", "StageDependencyEdgeArgs", "StageDependencyEdgeResult",
    "StateSummary", "StepAlreadyRecorded", "StepKey", "StepRecord", "StepRecorded", "StreamFrame", "StreamFrames",
    "StreamInfo", "StreamMode", "SubmitFlowArgs", "SubmitFlowResult", "SummaryDocument", "SuspendExecutionArgs",
    "SuspendExecutionResult", "SuspendedExecutionEntry", "SuspensionAlreadySatisfied", "SuspensionExpired",
    "SuspensionNotExpired", "SuspensionReasonCode", "SuspensionRequester", "TagsSet", "TailFramesArgs", "TaskEntry",
    "TerminalFailed", "TrimExecutionsArgs", "TrimExecutionsResult", "UnblockExecutionArgs", "UnblockExecutionResult",
    "UpdateProgressArgs", "UpdateProgressResult", "UsageAlreadyApplied", "UsageCounted", "VerifyingKid", "Visibility",
    "WaitpointAlreadyClosed", "WaitpointBinding", "WaitpointClosed", "WaitpointHmacKids", "WaitpointState",
    "WatchExecutionArgs", "WatchExecutionResult", "WatchedEnd", "WatchedHasEnded", "WorkGranted", "WorkerInfo",
    "WorkerMarkedDead", "WorkerNotRegistered", "WorkerOffer", "WorkerRefreshed", "WorkerRegistered",
]
# fmt: on
