"""Rules that every contract obeys, tried on one sample of each."""

from __future__ import annotations

import json
import typing
from typing import Any

import msgspec
import pytest

from flowfabric.core import codec, contracts
from flowfabric.core.lease_handle import BackendTag, Handle, HandleKind
from flowfabric.core.states import StateVector
from flowfabric.errors import InvalidInput
from tests.unit.looping import for_each

UUID = "550e8400-e29b-41d4-a716-446655440000"
EXECUTION = f"{{fp:24}}:{UUID}"
OTHER = f"{{fp:24}}:{UUID[:-1]}1"
HANDLE = Handle(BackendTag.VALKEY, HandleKind.FRESH, b"\x02\x01\x01")
FENCE = contracts.LeaseFence(lease_id=UUID, lease_epoch=1, attempt_id=UUID)  # type: ignore[arg-type]

# One value for each field name; a field means the same in every contract.
VALUES: dict[str, Any] = {
    "accepted_at": 1_700_000_000_000,
    "amounts": [5],
    "appended": 1,
    "at_ms": 1_700_000_000_000,
    "attempt_id": UUID,
    "attempt_index": 0,
    "attempt_type": "initial",
    "behavior_applied": "fail",
    "blocking_reason": "waiting_for_quota",
    "breach_count": 0,
    "budget_id": UUID,
    "cancellation_policy": "cancel_all",
    "capabilities": ["gpu"],
    "code": "backend_timeout",
    "concurrency_cap": 1,
    "count": 1,
    "created_at": 1_700_000_000_000,
    "current_attempt": None,
    "current_usage": 5,
    "cursor": "opaque",
    "data_passing_ref": "plan",
    "delay_until": 1_700_000_000_000,
    "deltas": [5],
    "dependency_kind": "success_only",
    "dimension": "tokens",
    "dimensions": ["tokens"],
    "document": b"{}",
    "downstream_execution_id": OTHER,
    "edge_count": 1,
    "edge_id": UUID,
    "edge_state": "staged",
    "effect": "appended_to_waitpoint",
    "enforcement_mode": "strict",
    "entries": [{"at_ms": 1, "level": 20, "message": "m"}],
    "entry_id": "1700000000000-0",
    "entry_ids": ["1700000000000-0"],
    "event": "created",
    "execution_id": EXECUTION,
    "execution_kind": "llm_call",
    "existing_signal_id": UUID,
    "expected_graph_revision": 3,
    "expires_at": 1_700_000_000_000,
    "expires_at_ms": 1_700_000_000_000,
    "expires_in_ms": 60_000,
    "failed_count": 0,
    "failure_category": "transient",
    "failure_reason": "boom",
    "fence": FENCE,
    "file": "app.py",
    "first_applied_ms": 1_700_000_000_000,
    "first_number": 0,
    "flow_id": UUID,
    "flow_kind": "research",
    "frame_count": 1,
    "frame_type": "token",
    "frames": [{"frame_type": "token", "payload": b"\x00"}],
    "from_node": EXECUTION,
    "grant_key": "ff:exec:{fp:24}:claim_grant",
    "grant_ttl_ms": 5_000,
    "graph_revision": 3,
    "group_state": "pending",
    "handle": HANDLE,
    "hard_limit": 10,
    "hard_limits": [10],
    "host": "localhost",
    "id": "1700000000000-0",
    "input_payload": b"\x00\xff",
    "is_open": True,
    "k": 2,
    "kid": "k1",
    "kind": "soft",
    "lane_id": "default",
    "lanes": ["default"],
    "last_heartbeat_at": 1_700_000_000_000,
    "last_mutation_at": 1_700_000_000_000,
    "last_updated_ms": 1_700_000_000_000,
    "lease_epoch": 1,
    "level": 20,
    "line": 3,
    "lease_expires_at": 1_700_000_000_000,
    "lease_id": UUID,
    "lease_ttl_ms": 30_000,
    "limit": 10,
    "limit_id": UUID,
    "limit_kind": "budget",
    "max_concurrent": 1,
    "max_requests_per_window": 1,
    "member_count": 2,
    "message": "execution_not_eligible",
    "name": "charge",
    "namespace": "test",
    "new_attempt_id": UUID,
    "new_attempt_index": 1,
    "new_graph_revision": 4,
    "new_kid": "k2",
    "new_lease_epoch": 2,
    "new_lease_id": UUID,
    "new_node_count": 3,
    "new_priority": 7,
    "new_secret_hex": "00" * 32,
    "next_expiry_ms": 1_700_000_000_000,
    "node_count": 2,
    "now_ms": 1_700_000_000_000,
    "number": 0,
    "occurrence": 0,
    "old_priority": 0,
    "outcome": "success",
    "options": {"lane": "default"},
    "partition": {"family": "flow", "index": 24},
    "partition_key": "{fp:24}",
    "partitions": 256,
    "patch_kind": "json-merge-patch",
    "payload": b"\x00",
    "policy": {"kind": "quorum", "k": 2},
    "priority": 0,
    "public_flow_state": "open",
    "problem": "payload: must be text",
    "public_state": "waiting",
    "quota_policy_id": UUID,
    "rate_limit": 1,
    "reason": "because",
    "reclaim_count": 100,
    "registered_at": 1_700_000_000_000,
    "rejected": [{"signal_id": UUID, "problem": "payload: must be text"}],
    "replica_id": "engine-1",
    "replicas": ["engine-1"],
    "reservation_id": UUID,
    "resume_condition": {"kind": "OperatorOnly"},
    "retry_after_ms": 5,
    "running_count": 1,
    "same_secret": True,
    "satisfied_count": 0,
    "scope_id": "default",
    "scope_type": "lane",
    "secret_hex": "00" * 32,
    "signal_id": UUID,
    "signal_name": "approved",
    "skipped_count": 0,
    "slots": 4,
    "soft_breach_count": 0,
    "soft_limit": 8,
    "soft_limits": [8],
    "state": "started",
    "state_vector": StateVector(lifecycle_phase="runnable"),  # type: ignore[arg-type]
    "status": "active",
    "step": {"name": "charge", "occurrence": 0},
    "step_count": 3,
    "suspended_at": 1_700_000_000_000,
    "suspension_id": UUID,
    "tags": {"team.ticket": "42"},
    "to_node": EXECUTION,
    "token_fingerprint": "0123456789abcdef",
    "token_kid": "k1",
    "total_attempt_count": 0,
    "total_deps": 1,
    "ts": 1_700_000_000_000,
    "ttl_ms": 30_000,
    "type": "ValueError",
    "unsatisfied_count": 1,
    "upstream_execution_id": EXECUTION,
    "upstream_outcome": "success",
    "usage": {"tokens": 5},
    "version": "1.0",
    "waitpoint_id": UUID,
    "waitpoint_key": "wpk:1",
    "waitpoint_token": "k1:" + "0" * 64,
    "waitpoints": [{"binding": "fresh", "waitpoint_id": UUID, "waitpoint_key": "wpk:1"}],
    "watcher_id": OTHER,
    "window_seconds": 60,
    "worker_id": "w",
    "worker_instance_id": "w-1",
    "writer": "w",
}
_MEMBERS = [{"execution_id": EXECUTION, "namespace": "test", "lane_id": "default", "execution_kind": "llm_call"}]
SPECIAL: dict[str, dict[str, Any]] = {
    "SubmitFlowArgs": {"members": _MEMBERS},
    "GrowFlowArgs": {"members": _MEMBERS},
    "ReclaimGrantIssued": {"grant": {name: VALUES[name] for name in contracts.ReclaimGrant.__struct_fields__}},
    "WorkGranted": {"grant": {name: VALUES[name] for name in contracts.ClaimGrant.__struct_fields__}},
    "SetLaneStateArgs": {"state": "paused"},
    "BudgetStatus": {"hard_limits": {"tokens": 10}, "soft_limits": {"tokens": 8}},
    "QuotaStatus": {"window_seconds": 60},
    "PendingWaitpointInfo": {"state": "pending"},
    "SummaryDocument": {"version": 1},
    "StepAlreadyRecorded": {"result": {"name": "charge", "occurrence": 0, "payload": b"\x00"}},
    "RotateWaitpointHmacSecretAllEntry": {"result": {"outcome": "noop", "kid": "k1"}},
}
STRUCTS = [
    kind
    for name in contracts.__all__
    if isinstance(kind := getattr(contracts, name), type) and issubclass(kind, msgspec.Struct)
]
ARGS = [kind for kind in STRUCTS if kind.__name__.endswith("Args")]
OUTCOMES = [kind for kind in STRUCTS if kind.__struct_config__.tag_field == "outcome"]
UNIONS = [name for name in contracts.__all__ if name.endswith(("Result", "Outcome", "Header"))]


def sample(kind: type[msgspec.Struct]) -> Any:
    """A value of `kind` with its required members only, made the way a caller over HTTP would make it."""
    special = SPECIAL.get(kind.__name__, {})
    members = {
        field.name: special.get(field.name, VALUES.get(field.name))
        for field in msgspec.structs.fields(kind)
        if field.required or field.name in special
    }
    config = kind.__struct_config__
    if config.tag_field:
        members[config.tag_field] = config.tag
    return codec.from_json(kind, codec.to_json(members))


@for_each(STRUCTS)
def test_a_value_survives_json(kind: type[msgspec.Struct]) -> None:
    value = sample(kind)
    assert codec.from_json(kind, codec.to_json(value)) == value


@for_each(STRUCTS)
def test_a_value_cannot_be_changed(kind: type[msgspec.Struct]) -> None:
    value = sample(kind)
    for name in kind.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(value, name, None)


@for_each(STRUCTS)
def test_members_are_given_by_name_only(kind: type[msgspec.Struct]) -> None:
    with pytest.raises(TypeError):
        kind("positional")


@for_each(ARGS)
def test_an_unknown_member_is_refused(kind: type[msgspec.Struct]) -> None:
    members = json.loads(codec.to_json(sample(kind))) | {"now": 1_700_000_000_000}
    with pytest.raises(InvalidInput) as caught:
        codec.from_json(kind, codec.to_json(members))
    assert caught.value.field == "now"


@for_each(ARGS)
def test_callers_never_send_the_time(kind: type[msgspec.Struct]) -> None:
    assert not {"now", "now_ms", "partition_id"} & set(kind.__struct_fields__)


@for_each((kind, name) for kind in ARGS for name in kind.__struct_fields__)
def test_every_member_of_args_is_checked_when_it_is_built_in_python(member: tuple[type[msgspec.Struct], str]) -> None:
    kind, name = member
    members = msgspec.structs.asdict(sample(kind)) | {name: object()}
    with pytest.raises(InvalidInput) as caught:
        kind(**members)
    assert caught.value.field == name


@for_each(ARGS)
def test_plain_text_becomes_the_id_it_stands_for(kind: type[msgspec.Struct]) -> None:
    value = sample(kind)
    plain = {
        name: str.__str__(member) if isinstance(member, str) else member
        for name, member in msgspec.structs.asdict(value).items()
    }
    twin = kind(**plain)
    assert twin == value
    assert [type(getattr(twin, name)) for name in plain] == [type(getattr(value, name)) for name in plain]


@for_each(UNIONS)
def test_a_result_is_told_apart_by_its_outcome(name: str) -> None:
    union = getattr(contracts, name)
    members = typing.get_args(union) or (union,)
    if name == "ExecutionResult":
        return  # what an execution left behind, not the result of a call
    tags = [member.__struct_config__.tag for member in members]
    assert len(set(tags)) == len(tags)
    for member in members:
        value = sample(member)
        assert json.loads(codec.to_json(value))["outcome"] == member.__struct_config__.tag
        assert codec.from_json(union, codec.to_json(value)) == value


def test_every_outcome_belongs_to_a_result() -> None:
    used = {
        member for name in UNIONS for member in typing.get_args(getattr(contracts, name)) or (getattr(contracts, name),)
    }
    assert not set(OUTCOMES) - used


def test_names_are_sorted_and_unique() -> None:
    assert contracts.__all__ == sorted(set(contracts.__all__))
