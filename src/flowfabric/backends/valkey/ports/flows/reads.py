"""FlowReadPort on Valkey."""

from __future__ import annotations

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import Fields, FunctionCaller, Value
from flowfabric.backends.valkey.library.cursors import decode_cursor, encode_cursor
from flowfabric.backends.valkey.library.keys import tags_of
from flowfabric.backends.valkey.library.records import number, optional_number, reading
from flowfabric.backends.valkey.rows.inputs import read_inputs
from flowfabric.backends.valkey.rows.merge import Place, Source, fill, first, settled
from flowfabric.core import contracts as c
from flowfabric.core.contracts.flows.edges import policy_from
from flowfabric.core.ids import EdgeId, ExecutionId, FlowId, LaneId, Namespace
from flowfabric.core.partition import PartitionConfig, flow_partition
from flowfabric.core.states import PublicState, TerminalOutcome
from flowfabric.errors import Invalid, NotFound

_PAGE = 500
_COUNTED = {
    TerminalOutcome.SUCCESS: "members_completed",
    TerminalOutcome.FAILED: "members_failed",
    TerminalOutcome.CANCELLED: "members_cancelled",
    TerminalOutcome.EXPIRED: "members_expired",
    TerminalOutcome.SKIPPED: "members_skipped",
}


class ValkeyFlowReads:
    """Read flows."""

    _caller: FunctionCaller
    partitions: PartitionConfig

    async def describe_flow(self, flow_id: FlowId) -> c.FlowSnapshot | None:
        try:
            fields = await self._read_flow("describe_flow", flow_id)
        except NotFound:
            return None
        groups: list[c.EdgeGroupSnapshot] = []
        page = c.ListFlowMembersPage(next_cursor=encode_cursor("flow_members", 0))
        with reading("flow", flow_id):
            edge_count = optional_number(fields.mapping(0), "edge_count")
        while page.next_cursor and edge_count:
            page = await self.list_flow_members(
                c.ListFlowMembersArgs(flow_id=flow_id, cursor=page.next_cursor, limit=_PAGE)
            )
            groups += [member.edge_group for member in page.members if member.edge_group is not None]
        with reading("flow", flow_id):
            return _snapshot(flow_id, fields.mapping(0), fields.mapping(1), tuple(groups))

    async def list_flow_members(self, args: c.ListFlowMembersArgs) -> c.ListFlowMembersPage:
        (start,) = decode_cursor("flow_members", args.cursor, tuple[int]) if args.cursor else (0,)
        fields = await self._read_flow("list_flow_members", args.flow_id, start=start, limit=args.limit)
        with reading("members of flow", args.flow_id):
            members = tuple(_member(start + at, each) for at, each in enumerate(fields.entries(0)))
        more = fields.text(1) == "1"
        return c.ListFlowMembersPage(
            members=members, next_cursor=encode_cursor("flow_members", start + len(members)) if more else None
        )

    async def list_edges(self, args: c.ListEdgesArgs) -> c.ListEdgesPage:
        member, start = decode_cursor("edges", args.cursor, tuple[int, int]) if args.cursor else (0, 0)
        direction = str(args.direction.__struct_config__.tag) if args.direction else ""
        subject = args.direction.subject if args.direction else ""
        fields = await self._read_flow(
            "list_edges",
            args.flow_id,
            direction=direction,
            execution_id=subject,
            from_member=member,
            start=start,
            limit=args.limit,
        )
        following = fields.text(2) if direction else fields.text(1)
        with reading("edges of flow", args.flow_id):
            place = (int(fields.text(1) or 0), int(fields.text(2) or 0))
            return c.ListEdgesPage(
                edges=tuple(_edge(args.flow_id, row) for row in fields.rows(0)),
                next_cursor=encode_cursor("edges", *place) if following else None,
            )

    async def describe_edge(self, flow_id: FlowId, edge_id: EdgeId) -> c.EdgeSnapshot | None:
        try:
            fields = await self._read_flow("describe_edge", flow_id, edge_id=edge_id)
        except NotFound:
            return None
        except Invalid as error:
            if error.code != "invalid_dependency":
                raise
            return None
        with reading("edge", edge_id):
            return _edge(flow_id, fields.texts(0))

    async def list_flows(self, args: c.ListFlowsArgs) -> c.ListFlowsPage:
        place = decode_cursor("flows", args.cursor, tuple[int, str]) if args.cursor else None
        sources = [_Flows(self._caller, tag, args, place) for tag in tags_of(self.partitions)]
        await fill(sources, args.limit, newest=True)
        found, rest = settled(sources, args.limit, newest=True)
        if len(found) == args.limit:
            reached: Place | None = found[-1][0] if rest else None
        else:
            reached = first(sources, newest=True)
        cursor = encode_cursor("flows", *reached) if reached else None
        return c.ListFlowsPage(flows=tuple(each for _, each in found), next_cursor=cursor)

    async def read_execution_inputs(self, execution_id: ExecutionId) -> list[c.ExecutionInput]:
        fields = await self._caller.call_execution("read_execution_inputs", execution_id)
        with reading("inputs of execution", execution_id):
            return read_inputs(fields.values[0], fields.raw(1))

    async def _read_flow(self, operation: str, flow_id: FlowId, **args: Value) -> Fields:
        tag = flow_partition(flow_id, self.partitions).tag
        args["flow_id"] = flow_id
        core = {"flow_core": keys.flow_core(tag, flow_id)}
        return await self._caller.call(operation, core, args, subject=flow_id)


class _Flows(Source[c.FlowSummary]):
    def __init__(self, caller: FunctionCaller, tag: str, args: c.ListFlowsArgs, place: Place | None) -> None:
        super().__init__()
        self._caller = caller
        self._tag = tag
        self._place = place
        self._args: dict[str, Value] = {
            "namespace": args.namespace,
            "flow_kind": args.flow_kind,
            "public_flow_state": args.status,
        }

    async def ask(self, count: int) -> None:
        after_ms, after_id = self._place or (None, "")
        fields = await self._caller.call_partition(
            "list_flows", self._tag, **self._args, after_ms=after_ms, after_id=after_id, limit=count
        )
        for row in fields.rows(3):
            with reading("flow", row[0]):
                self.found.append(((int(row[5]), row[0]), _summary(row)))
        self.finished = fields.text(0) == "0"
        if not self.finished:
            self.reached = self._place = (fields.number(1), fields.text(2))


def _summary(row: list[str]) -> c.FlowSummary:
    return c.FlowSummary(
        flow_id=FlowId(row[0]),
        namespace=Namespace(row[1]),
        flow_kind=row[2],
        status=c.FlowStatus.from_public_flow_state(row[3]),
        public_flow_state=row[3],
        node_count=int(row[4]),
        created_at=int(row[5]),
        ended_at=_time(row[6]),
    )


def _time(text: str | None) -> int | None:
    return int(text) if text else None


def _snapshot(
    flow_id: FlowId, core: dict[str, str], tags: dict[str, str], groups: tuple[c.EdgeGroupSnapshot, ...]
) -> c.FlowSnapshot:
    failed, parent, policy = (
        core.get(name) for name in ("failed_execution_id", "parent_execution_id", "cancellation_policy")
    )
    return c.FlowSnapshot(
        flow_id=flow_id,
        flow_kind=core.get("flow_kind", ""),
        namespace=Namespace(core["namespace"]),
        public_flow_state=c.FlowState(core["public_flow_state"]),
        graph_revision=number(core, "graph_revision"),
        node_count=number(core, "node_count"),
        edge_count=number(core, "edge_count"),
        created_at=number(core, "created_at"),
        last_mutation_at=number(core, "last_mutation_at"),
        cancelled_at=optional_number(core, "cancelled_at"),
        cancel_reason=core.get("cancel_reason"),
        cancellation_policy=c.CancellationPolicy(policy) if policy else None,
        tags=tags,
        edge_groups=groups,
        failure_policy=c.FailurePolicy(core.get("failure_policy", "continue")),
        ended_at=optional_number(core, "ended_at"),
        ended_counts={outcome: count for outcome, name in _COUNTED.items() if (count := optional_number(core, name))},
        failed_execution_id=ExecutionId(failed) if failed else None,
        parent_execution_id=ExecutionId(parent) if parent else None,
        is_committed=core.get("staged") != "building",
    )


def _member(number: int, entry: Fields) -> c.FlowMember:
    execution_id, state, kind, lane, created, started, completed, child, reason = entry.texts(0)
    return c.FlowMember(
        execution_id=ExecutionId(execution_id),
        number=number,
        public_state=PublicState(state),
        execution_kind=kind,
        lane_id=LaneId(lane),
        created_at=int(created),
        started_at=_time(started),
        completed_at=_time(completed),
        child_flow_id=FlowId(child) if child else None,
        failure_reason=reason or None,
        edge_group=_group(ExecutionId(execution_id), entry.texts(1)),
    )


def _group(execution_id: ExecutionId, row: list[str]) -> c.EdgeGroupSnapshot | None:
    if not row:
        return None
    n, succeeded, failed, skipped = (int(each) for each in row[3:7])
    return c.EdgeGroupSnapshot(
        downstream_execution_id=execution_id,
        policy=policy_from(row[0], row[1], int(row[2])),
        total_deps=n,
        satisfied_count=succeeded,
        failed_count=failed,
        skipped_count=skipped,
        running_count=n - succeeded - failed - skipped,
        group_state=c.EdgeGroupState(row[7]),
    )


def _edge(flow_id: FlowId, row: list[str]) -> c.EdgeSnapshot:
    return c.EdgeSnapshot(
        edge_id=EdgeId(row[0]),
        flow_id=flow_id,
        upstream_execution_id=ExecutionId(row[1]),
        downstream_execution_id=ExecutionId(row[2]),
        dependency_kind=c.DependencyKind(row[3]),
        data_passing_ref=row[4] or None,
        edge_state=c.EdgeState(row[5]),
        created_at=int(row[6]),
    )
