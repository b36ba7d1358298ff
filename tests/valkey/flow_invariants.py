"""What must hold of every flow at any time: its counts and its state are what its members imply."""

from __future__ import annotations

from collections import Counter

from flowfabric.backends.valkey.library.calls import flat_to_dict
from flowfabric.backends.valkey.wire.client import Client
from flowfabric.core import contracts as c
from flowfabric.core.rules.flows.graph import EdgeGroupState, EdgeState
from flowfabric.core.rules.flows.joins import Join, decide
from flowfabric.core.states import StateVector
from tests.valkey.invariants import dump

_COUNTED = {
    "success": "members_completed", "failed": "members_failed", "cancelled": "members_cancelled",
    "expired": "members_expired", "skipped": "members_skipped",
}  # fmt: skip
_PLAIN = {
    "flow_id", "flow_kind", "namespace", "created_at", "last_mutation_at", "ended_at", "graph_revision", "node_count",
    "edge_count", "public_flow_state", "moving_count", "members_completed", "sealed", "is_plain",
}  # fmt: skip
_MOVING = {"eligible_now", "not_eligible_until_time", "blocked_by_quota"}


async def check_flows(client: Client) -> None:
    """Raise on the first broken invariant."""
    for key in await dump(client):
        name = key.decode()
        if name.startswith("ff:flow:") and name.endswith(":core"):
            await _Flow(client, name.removesuffix(":core")).check()


class _Flow:
    def __init__(self, client: Client, base: str) -> None:
        self.client = client
        self.base = base

    async def hash(self, key: str) -> dict[str, str]:
        return flat_to_dict(await self.client.execute("HGETALL", key, key=key))

    async def check(self) -> None:
        core = await self.hash(f"{self.base}:core")
        members = f"{self.base}:members"
        ids = [each.decode() for each in await self.client.execute("ZRANGE", members, 0, -1, key=members)]  # type: ignore[union-attr]
        tag = self.base.split(":", 2)[2].rpartition(":")[0]
        records = {each: await self.hash(f"ff:exec:{tag}:{each}:core") for each in ids}
        edges = await self.edges(tag, records)
        self.check_counts(core, records)
        self.check_state(core, records)
        for each in ids:
            await self.check_join(each, records[each], edges)

    def check_counts(self, core: dict[str, str], records: dict[str, dict[str, str]]) -> None:
        states = [StateVector.from_record(record) for record in records.values()]
        ended = Counter(str(each.terminal_outcome) for each in states if each.terminal_outcome != "none")
        for outcome, field in _COUNTED.items():
            assert int(core.get(field, 0)) == ended[outcome], (field, core, ended)
        moving = sum(
            each.lifecycle_phase == "active"
            or (each.lifecycle_phase == "runnable" and each.eligibility_state in _MOVING)
            or (each.lifecycle_phase == "runnable" and "child_released_at" in record)
            for each, record in zip(states, records.values(), strict=True)
        )
        assert int(core.get("moving_count", 0)) == moving, (core, moving)
        assert "" not in core.values(), core
        assert "is_plain" not in core or not set(core) - _PLAIN, core

    def check_state(self, core: dict[str, str], records: dict[str, dict[str, str]]) -> None:
        state, moving = core["public_flow_state"], int(core.get("moving_count", 0))
        left = sum(record["lifecycle_phase"] != "terminal" for record in records.values())
        if state in ("running", "blocked"):
            assert (state == "running") == (moving > 0), core
        if state == "completed":
            assert left == 0, core
        if records and left == 0 and "staged" not in core:
            failed = int(core.get("failure_count", 0)) > 0
            assert state in ("cancelled", "failed" if failed else "completed"), core

    async def edges(self, tag: str, records: dict[str, dict[str, str]]) -> dict[str, EdgeState]:
        """The states of all edges. That of an only edge is in the record of its upstream, and says where it leads."""
        states, out = {}, Counter[str]()
        for edge_id, text in (await self.hash(f"{self.base}:edges")).items():
            state, up, down, kind = text.split(" ")[:4]
            out[up] += 1
            only = records.get(f"{tag}:{up}", {}).get("only_edge")
            assert (state == "-") == (only is not None), (text, only)
            if only is not None:
                leads_to, state, kind_of = (*only.split(" "), "", "")[:3]
                assert (leads_to, kind_of or "success_only") == (down, kind), (text, only)
            states[edge_id] = EdgeState(state or "unsatisfied")
        assert all(out[each.removeprefix(f"{tag}:")] == 1 for each in records if "only_edge" in records[each]), out
        return states

    async def check_join(self, execution_id: str, record: dict[str, str], edges: dict[str, EdgeState]) -> None:
        """The counts of a join are those of its edges, and its state follows from them."""
        group = await self.hash(f"{self.base}:edgegroup:{execution_id}")
        incoming = f"{self.base}:in:{execution_id}"
        ids = await self.client.execute("ZRANGE", incoming, 0, -1, key=incoming)
        states = [edges[each.decode()] for each in ids]  # type: ignore[union-attr]
        if group:
            assert "has_joins" in await self.hash(f"{self.base}:core"), group
        if "n" not in group:
            assert len(states) <= 1, (group, states)  # a single edge is its own join until it is impossible
            assert EdgeState.IMPOSSIBLE not in states, (group, states)
            return
        assert int(group["n"]) == len(states), (group, states)
        assert int(group.get("succeeded", 0)) == states.count(EdgeState.SATISFIED), (group, states)
        impossible = int(group.get("failed", 0)) + int(group.get("skipped", 0))
        assert impossible == states.count(EdgeState.IMPOSSIBLE), (group, states)
        if states and group.get("group_state", "pending") == "pending":
            variant = group.get("policy_variant", "all_of")
            satisfied = states.count(EdgeState.SATISFIED)
            join = Join(_policy(variant, int(group.get("k", 0))), len(states), satisfied, failed=impossible)
            assert decide(join) is EdgeGroupState.PENDING, (group, states, record)


def _policy(variant: str, k: int) -> c.EdgeDependencyPolicy:
    if variant == "quorum":
        return c.QuorumOfEdges(k=k)
    return c.AnyOfEdges() if variant == "any_of" else c.AllOfEdges()
