"""Flows as another program builds them: plain FCALL with the positions of the public wire, no project code."""

from __future__ import annotations

import uuid
from typing import Any

import valkey
from msgspec import msgpack

from tests.valkey.wire.wire import Execution, Reply


class Flow:
    """One flow's documented keys and calls. Members are executions of its partition."""

    def __init__(self, client: valkey.Valkey) -> None:
        self.client: Any = client  # its types say that every reply may be awaitable
        self.tag = "{fp:7}"
        self.id = str(uuid.uuid4())
        self.base = f"ff:flow:{self.tag}:{self.id}"
        self.core = f"{self.base}:core"
        self.members = f"{self.base}:members"
        self.index = f"ff:idx:{self.tag}:flow_index"

    def fcall(self, function: str, keys: list[str], *args: object) -> Reply:
        return Execution(self.client).fcall(function, keys, *args)

    def field(self, name: str) -> str | None:
        value = self.client.hget(self.core, name)
        return value.decode() if value is not None else None

    def create(self, *more: object) -> Reply:
        return self.fcall("ff_create_flow", [self.core, self.members, self.index], self.id, "dag", "ns", 0, *more)

    def add(self, x: Execution) -> Reply:
        return self.fcall("ff_add_execution_to_flow", [self.core, self.members, self.index, x.core], self.id, x.id, 0)

    def member(self) -> Execution:
        """A new execution in the flow."""
        x = Execution(self.client)
        assert x.create()[0] == 1
        assert self.add(x)[:2] == [1, "OK"]
        return x

    def stage(self, up: Execution, down: Execution, edge: str, revision: object, kind: str = "success_only",
              ref: str = "") -> Reply:  # fmt: skip
        keys = [
            self.core, self.members, f"{self.base}:edge:{edge}", f"{self.base}:out:{up.id}",
            f"{self.base}:in:{down.id}", f"{self.base}:grant:{edge}",
        ]  # fmt: skip
        return self.fcall("ff_stage_dependency_edge", keys, self.id, edge, up.id, down.id, kind, ref, revision, 0)

    def apply(self, up: Execution, down: Execution, edge: str, revision: object = 0, kind: str = "success_only",
              ref: str = "") -> Reply:  # fmt: skip
        keys = [
            down.core, down.exec("deps:meta"), down.exec("deps:unresolved"), down.exec(f"dep:{edge}"),
            down.lane_idx("eligible"), down.lane_idx("blocked:dependencies"), down.exec("deps:all_edges"),
            f"{self.base}:edgegroup:{down.id}",
        ]  # fmt: skip
        return self.fcall("ff_apply_dependency_to_child", keys, self.id, edge, up.id, revision, kind, ref, 0)

    def link(self, up: Execution, down: Execution, **more: str) -> str:
        """Stage and apply an edge."""
        edge = str(uuid.uuid4())
        staged = self.stage(up, down, edge, self.field("graph_revision"), **more)
        assert staged[:2] == [1, "OK"], staged
        assert self.apply(up, down, edge, staged[3])[:2] == [1, "OK"]
        return edge

    def resolve(self, down: Execution, edge: str, outcome: str) -> Reply:
        keys = [
            down.core, down.exec("deps:meta"), down.exec("deps:unresolved"), down.exec(f"dep:{edge}"),
            down.lane_idx("eligible"), down.lane_idx("terminal"), down.lane_idx("blocked:dependencies"), down.att(0),
            down.smeta(0), down.exec("payload"), down.exec("result"), f"{self.base}:edgegroup:{down.id}",
            f"{self.base}:in:{down.id}", f"ff:idx:{self.tag}:pending_cancel_groups",
        ]  # fmt: skip
        return self.fcall("ff_resolve_dependency", keys, edge, outcome, 0, self.id, down.id)

    def evaluate(self, x: Execution) -> Reply:
        return self.fcall("ff_evaluate_flow_eligibility", [x.core, x.exec("deps:meta")])

    def promote(self, x: Execution) -> Reply:
        keys = [
            x.core, x.lane_idx("blocked:dependencies"), x.lane_idx("eligible"), x.exec("deps:meta"),
            x.exec("deps:unresolved"),
        ]  # fmt: skip
        return self.fcall("ff_promote_blocked_to_eligible", keys, x.id, 0)

    def policy(self, x: Execution, variant: str, on_satisfied: str = "", k: object = "") -> Reply:
        keys = [self.core, f"{self.base}:edgegroup:{x.id}"]
        return self.fcall("ff_set_edge_group_policy", keys, variant, on_satisfied, k, 0)

    def cancel(self, policy: str = "cancel_all", *more: object) -> Reply:
        keys = [
            self.core, self.members, self.index, f"{self.base}:pending_cancels", f"ff:idx:{self.tag}:cancel_backlog",
        ]  # fmt: skip
        return self.fcall("ff_cancel_flow", keys, self.id, "enough", policy, 0, *more)

    def ack(self, x: Execution) -> Reply:
        keys = [f"{self.base}:pending_cancels", f"ff:idx:{self.tag}:cancel_backlog"]
        return self.fcall("ff_ack_cancel_member", keys, x.id, self.id)

    def siblings(self, verb: str, downstream: str, flow_id: str | None = None) -> Reply:
        """Drain or reconcile the siblings of a join."""
        keys = [f"ff:idx:{self.tag}:pending_cancel_groups", f"{self.base}:edgegroup:{downstream}"]
        return self.fcall(f"ff_{verb}_sibling_cancel_group", keys, self.id if flow_id is None else flow_id, downstream)

    def set_tags(self, *pairs: str) -> Reply:
        return self.fcall("ff_set_flow_tags", [self.core, f"{self.base}:tags"], *pairs)

    def submit(self, *payloads: bytes, **request: Any) -> Reply:
        """Our own batch function; a request says what it does not leave out."""
        said = {
            "create": True, "commit": True, "flow_kind": "dag", "namespace": "ns", "failure_policy": "continue",
            "parent_execution_id": "", "members": [], "edges": [], "groups": [], "child_flows": [], **request,
        }  # fmt: skip
        return self.fcall("ff_submit_flow", [self.core], self.id, msgpack.encode(said), *payloads)


def item(name: str | None = None, lane: str = "default") -> list[str]:
    """A member of a submitted graph."""
    return [name or str(uuid.uuid4()), "ns", lane, "kind", ""]
