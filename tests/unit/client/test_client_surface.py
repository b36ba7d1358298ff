"""The classes that users work with stay small enough to read in an editor's list of members."""

from __future__ import annotations

import pytest

from flowfabric.client import Flow, FlowHandle, Handle, SyncFlow, SyncFlowHandle, SyncHandle
from flowfabric.client.flows.builder import ChildFlow, FlowBuilder

MOST = 20

SMALL = (Handle, SyncHandle, FlowBuilder, ChildFlow, Flow, SyncFlow, FlowHandle, SyncFlowHandle)


@pytest.mark.parametrize("kind", SMALL, ids=lambda kind: kind.__name__)
def test_a_class_has_at_most_twenty_public_methods_and_properties(kind: type) -> None:
    assert len(public_members(kind)) <= MOST


@pytest.mark.parametrize(("plain", "sync"), [(Handle, SyncHandle), (FlowHandle, SyncFlowHandle)])
def test_a_sync_handle_has_the_methods_of_the_handle(plain: type, sync: type) -> None:
    assert public_members(sync) == public_members(plain)


def public_members(kind: type) -> set[str]:
    """Methods and properties, the inherited ones too."""
    return {name for name in dir(kind) if not name.startswith("_")}
