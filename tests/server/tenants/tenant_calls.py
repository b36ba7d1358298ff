"""A valid call of each operation about one tenant's things, with something at the place that is tried."""

from __future__ import annotations

import json
import uuid
from typing import Any, Final

from flowfabric.backends.http.operations import Operation
from flowfabric.backends.http.shapes import to_wire
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.core.conditions import Single
from flowfabric.server.http.decoding import request_type
from tests.server.tenants.tenant_requests import Maker, Path, Place, hints, put, sent
from tests.server.tenants.tenant_worlds import World, new_execution, new_flow

# Which of a tenant's executions an operation is about; the others are about the one that runs.
_SUBJECTS: Final = {
    "waiting": (
        "claim_execution", "issue_grant_and_claim", "issue_claim_grant", "add_execution_to_flow", "change_priority",
        "block_execution_for_admission", "promote_delayed",
    ),
    "suspended": (
        "resume_execution", "deliver_signal", "signal_execution", "close_waitpoint", "read_waitpoint_token",
        "expire_suspension", "list_pending_waitpoints", "claim_resumed_execution", "fork_execution",
    ),
    "member2": ("evaluate_flow_eligibility", "promote_blocked_to_eligible", "read_execution_inputs"),
    "new": ("create_execution", "submit_executions"),
}  # fmt: skip
_SUBJECT_OF: Final = {port: name for name, ports in _SUBJECTS.items() for port in ports}

# Which of a tenant's things a member names: by operation and member, by the member, by its kind.
_BY_PLACE: Final = {
    ("stage_dependency_edge", "edge_id"): "new_edge",
    ("apply_dependency_to_child", "downstream_execution_id"): "member2",
    ("create_flow", "flow_id"): "new_flow",
    ("fork_execution", "fork_id"): "new",
    ("create_pending_waitpoint", "waitpoint_id"): "new_waitpoint",
    ("suspend_execution", "suspension_id"): "new_suspension",
    ("reject_signals", "suspension_id"): "new_suspension",
}
_BY_NAME: Final = {
    "upstream_execution_id": "member", "downstream_execution_id": "member3", "from_node": "member", "to_node": "member",
    "watcher_id": "waiting",
}  # fmt: skip
_BY_KIND: Final = {
    "FlowId": "flow", "EdgeId": "edge", "BudgetId": "budget", "QuotaPolicyId": "quota", "LeaseId": "lease",
    "AttemptId": "attempt", "SuspensionId": "suspension", "WaitpointId": "waitpoint", "SignalId": "signal",
    "WorkerInstanceId": "instance", "ReservationId": "signal",
}  # fmt: skip
# Of what a tenant is about to make there is nothing yet: in its place, something of the kind that another has.
_THERE: Final = {
    "new": "running", "new2": "waiting", "new_flow": "flow", "child": "flow", "new_edge": "edge",
    "new_waitpoint": "waitpoint", "new_suspension": "suspension", "signal": "told",
}  # fmt: skip

# Ids that a request gives to what it makes. They are drawn by chance, so that nobody meets another's; whoever knows one
# and uses it again is refused, and told no more than that it is taken.
MADE: Final = {
    ("create_execution", "execution_id"), ("submit_executions", "batch.0.execution_id"), ("create_flow", "flow_id"),
    ("submit_flow", "flow_id"), ("submit_flow", "members.0.execution_id"), ("grow_flow", "members.0.execution_id"),
    ("create_pending_waitpoint", "waitpoint_id"), ("suspend_execution", "waitpoints.0.|0.waitpoint_id"),
    ("deliver_signal", "signal_id"), ("signal_execution", "signal_id"), ("fork_execution", "fork_id"),
}  # fmt: skip

_VALUES: Final[dict[str, Any]] = {
    "lease_ttl_ms": 600_000, "grant_ttl_ms": 5_000, "attempt_index": 0, "lease_epoch": 1, "new_priority": 1,
    "delay_until": 9_000_000_000_000, "timeout_ms": 0, "blocking_reason": "waiting_for_quota", "lane_id": "default",
    "tags": {"team.key": "value"}, "worker_id": "worker", "waitpoint_key": "approval", "execution_kind": "kind",
    "failure_category": "transient", "expected_graph_revision": 5, "writer": "w",
    "entries": [{"at_ms": 1, "level": 20, "message": "secret"}],
    "resume_condition": json.loads(to_wire(Single("approval"))),
}  # fmt: skip
_GRAPHS: Final = ("submit_flow", "grow_flow")


def unknown(backend: ValkeyBackend, kind: str, foreign: str | None = None) -> str:
    """An id of nothing, of the same shape; where lists are ordered by such ids, it stands beside the foreign one."""
    match kind:
        case "ExecutionId":
            return new_execution()
        case "FlowId":
            return new_flow(backend)
        case "Namespace":
            return "unheard-of"
        case "WorkerInstanceId":
            return f"worker-{uuid.uuid4()}"
    return str(uuid.UUID(int=uuid.UUID(foreign).int ^ 1) if foreign else uuid.uuid4())


class Call:
    """A call of an operation about the things of one tenant."""

    def __init__(self, operation: Operation, world: World, place: Place) -> None:
        self._operation = operation
        self._port = operation.port
        self._world = world
        self._place = place

    def sent(self, value: str | None) -> dict[str, Any]:
        """The call as it is; with a value, with that at the place."""
        request = self._request()
        if value is not None:
            request = put(request, self._place.path, value)
        return sent(self._operation.method, self._operation.path, request, self._operation.parameters)

    def foreign(self) -> str:
        """What stands at the place in the eyes of this tenant, or something of its kind that this tenant has."""
        if self._place.kind == "Namespace":
            return self._world.namespace
        name = self._name(self._place.kind, str(self._place.path[-1]))
        return self._world.ids[_THERE.get(name, name)]

    def _request(self) -> dict[str, Any]:
        path = self._place.path
        if self._port in _GRAPHS:
            return self._graph(path)
        kind = request_type(self._operation)
        request: dict[str, Any] = Maker(self._value, _VALUES | self._said()).make(kind, path)
        if "fence" in hints(kind):
            request.setdefault("fence", self._fence())
        if self._port == "close_waitpoint":
            request["source"] = "operator_override"
        return request

    def _said(self) -> dict[str, Any]:
        ids = self._world.ids
        fresh = {"binding": "fresh", "waitpoint_id": ids["new_waitpoint"], "waitpoint_key": "approval"}
        rejected = {"signal_id": ids[_BY_KIND["SignalId"]], "problem": "no"}
        return {"waitpoint_token": self._world.token.reveal(), "waitpoints": [fresh], "rejected": [rejected]}

    def _fence(self) -> dict[str, Any]:
        ids = self._world.ids
        return {"lease_id": ids["lease"], "lease_epoch": 1, "attempt_id": ids["attempt"]}

    def _value(self, kind: str, name: str) -> str:
        if kind in ("Namespace", "cursor"):
            return self._world.namespace if kind == "Namespace" else "x"
        return self._world.ids[self._name(kind, name)]

    def _name(self, kind: str, name: str) -> str:
        if self._port == "suspend_execution" and name == "waitpoint_id":
            return "pending" if "|1" in self._place.path else "new_waitpoint"
        if self._port in _GRAPHS:
            return self._name_in_graph(kind, name)
        if (self._port, name) in _BY_PLACE:
            return _BY_PLACE[self._port, name]
        if name in _BY_NAME:
            return _BY_NAME[name]
        if kind == "ExecutionId":
            return _SUBJECT_OF.get(self._port, "running")
        if kind not in _BY_KIND:
            raise AssertionError(f"{self._port}: {name} is a {kind}: say in _BY_KIND which thing of a tenant that is")
        return _BY_KIND[kind]

    def _name_in_graph(self, kind: str, name: str) -> str:
        path = self._place.path
        if kind == "FlowId":
            is_child = name == "value" or "parent_execution_id" in path
            return "child" if is_child else ("new_flow" if self._port == "submit_flow" else "flow")
        if name == "parent_execution_id":
            return "stand_in"
        if kind == "ExecutionId":
            return "new2" if name == "downstream_execution_id" else "new"
        return "new_edge" if kind == "EdgeId" else _BY_KIND[kind]

    def _graph(self, path: Path) -> dict[str, Any]:
        """A graph that has something in every place."""
        ids = self._world.ids
        request: dict[str, Any] = {
            "flow_id": ids[self._name_in_graph("FlowId", "flow_id")],
            "members": [self._member("new", path), self._member("new2", ())],
            "edges": [
                {
                    "edge_id": ids["new_edge"],
                    "upstream_execution_id": ids["new"],
                    "downstream_execution_id": ids["new2"],
                }
            ],
            "joins": [{"downstream_execution_id": ids["new2"], "policy": {"kind": "all_of"}}],
        }
        if self._port == "submit_flow":
            request["namespace"] = self._world.namespace
        if path[0] == "child_flows":
            request["child_flows"] = {ids["new"]: ids["child"]}
        if path[0] == "parent_execution_id":
            request["parent_execution_id"] = ids["stand_in"]
        return request

    def _member(self, name: str, path: Path) -> dict[str, Any]:
        member: dict[str, Any] = {
            "execution_id": self._world.ids[name],
            "namespace": self._world.namespace,
            "lane_id": "default",
            "execution_kind": "kind",
        }
        if "policy" in path:
            limit = path[path.index("policy") + 1]
            member["policy"] = {limit: [self._world.ids["budget" if limit == "budget_ids" else "quota"]]}
        return member
