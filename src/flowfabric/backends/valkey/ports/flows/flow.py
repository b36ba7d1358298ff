"""FlowPort and EdgePort on Valkey."""

from __future__ import annotations

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import Fields, FunctionCaller, Value
from flowfabric.backends.valkey.library.records import reading
from flowfabric.backends.valkey.library.tenancy import ValkeyTenancy
from flowfabric.backends.valkey.rows.graph_parts import GraphPart, grow_part, submit_parts
from flowfabric.core import contracts as c
from flowfabric.core.contracts.flows.edges import policy_fields
from flowfabric.core.ids import EdgeId, ExecutionId, FlowId
from flowfabric.core.partition import PartitionConfig, flow_partition
from flowfabric.errors import Conflict, InvalidInput

# How many members the reply to a repeated cancel names at most.
_NAMED_AGAIN = 1_000


class ValkeyFlows(ValkeyTenancy):
    """The life of a flow."""

    _caller: FunctionCaller
    partitions: PartitionConfig

    async def submit_flow(self, args: c.SubmitFlowArgs) -> c.SubmitFlowResult:
        parent = (args.parent_execution_id,) if args.parent_execution_id else ()
        for execution_id in (*args.named_executions(), *parent):
            self._check_partition(args.flow_id, execution_id)
        await self.check_limits(args.members)
        fields: Fields | None = None
        is_new = False
        for part in submit_parts(args):
            fields = await self._submit_part(args.flow_id, part)
            is_new = is_new or fields.status == "OK"
        assert fields is not None
        return await self._submitted(args.flow_id, fields, is_new=is_new)

    async def grow_flow(self, args: c.GrowFlowArgs) -> c.GrowFlowResult:
        for execution_id in args.named_executions():
            self._check_partition(args.flow_id, execution_id)
        await self.check_limits(args.members)
        fields = await self._submit_part(args.flow_id, grow_part(args))
        return await self._submitted(args.flow_id, fields, is_new=fields.status == "OK")

    async def create_flow(self, args: c.CreateFlowArgs) -> c.CreateFlowResult:
        fields = await self._call_flow(
            "create_flow",
            args.flow_id,
            flow_kind=args.flow_kind,
            namespace=args.namespace,
            failure_policy=args.failure_policy,
        )
        kind = c.FlowCreated if fields.status == "OK" else c.FlowAlreadyCreated
        return kind(flow_id=args.flow_id)

    async def add_execution_to_flow(self, args: c.AddExecutionToFlowArgs) -> c.AddExecutionToFlowResult:
        self._check_partition(args.flow_id, args.execution_id)
        fields = await self._caller.call(
            "add_execution_to_flow",
            {"flow_core": self._core(args.flow_id), "execution_core": keys.core(args.execution_id)},
            {"flow_id": args.flow_id, "execution_id": args.execution_id},
            subject=args.flow_id,
        )
        if fields.status == "OK":
            return c.ExecutionAddedToFlow(execution_id=args.execution_id, new_node_count=fields.number(1))
        return c.ExecutionAlreadyMember(execution_id=args.execution_id, node_count=fields.number(1))

    async def cancel_flow(self, args: c.CancelFlowArgs) -> c.CancelFlowResult:
        header = await self._cancel_header(args)
        if isinstance(header, c.FlowAlreadyTerminal):
            policy = header.stored_cancellation_policy
            if policy is None:
                message = f"cancel_flow {args.flow_id}: the flow is {header.public_flow_state}"
                raise Conflict(message, code="flow_already_terminal", state=header.public_flow_state)
            members = await self._member_ids(args.flow_id, _NAMED_AGAIN)
            if not await self._is_left(args.flow_id, wait=args.wait):
                return await self._cancelled(args.flow_id, policy, members)
        else:
            policy, members = header.cancellation_policy, await self._member_ids(args.flow_id)
            if not header.member_count or not await self._is_left(args.flow_id, wait=args.wait):
                return await self._cancelled(args.flow_id, policy, members)
        return c.FlowCancellationScheduled(
            cancellation_policy=policy, member_count=len(members), member_execution_ids=members
        )

    async def continue_flow(self, flow_id: FlowId) -> bool:
        fields = await self._call_flow("continue_flow", flow_id)
        return fields.text(1) == "1"

    async def set_flow_tags(self, args: c.SetFlowTagsArgs) -> c.SetFlowTagsResult:
        pairs = [text for pair in sorted(args.tags.items()) for text in pair]
        core = {"flow_core": self._core(args.flow_id)}
        fields = await self._caller.call("set_flow_tags", core, {"pairs": pairs}, subject=args.flow_id)
        return c.TagsSet(count=fields.number(0))

    async def _cancel_header(self, args: c.CancelFlowArgs) -> c.CancelFlowHeader:
        """Close the flow; return how many members follow later, or how it had ended before."""
        try:
            fields = await self._call_flow(
                "cancel_flow",
                args.flow_id,
                reason=args.reason,
                cancellation_policy=args.cancellation_policy,
                form="counts",
            )
        except Conflict as error:
            if error.code != "flow_already_terminal":
                raise
            record = (await self._call_flow("describe_flow", args.flow_id)).mapping(0)
            with reading("flow", args.flow_id):
                policy = record.get("cancellation_policy")
                return c.FlowAlreadyTerminal(
                    public_flow_state=c.FlowState(record["public_flow_state"]),
                    stored_cancellation_policy=c.CancellationPolicy(policy) if policy else None,
                    stored_cancel_reason=record.get("cancel_reason"),
                )
        return c.FlowCancellationScheduled(
            cancellation_policy=args.cancellation_policy, member_count=fields.number(2) if fields.number(1) else 0
        )

    async def _cancelled(
        self, flow_id: FlowId, policy: c.CancellationPolicy, members: tuple[ExecutionId, ...]
    ) -> c.CancelFlowResult:
        unreadable = set((await self._call_flow("describe_flow", flow_id)).texts(2))
        failed = tuple(member for member in members if member in unreadable)
        if failed:
            return c.FlowPartiallyCancelled(
                cancellation_policy=policy, member_execution_ids=members, failed_member_execution_ids=failed
            )
        return c.FlowCancelled(cancellation_policy=policy, member_execution_ids=members)

    async def _is_left(self, flow_id: FlowId, *, wait: bool) -> bool:
        """Whether members remain to be cancelled; with `wait`, continue until none is left."""
        left = await self.continue_flow(flow_id)
        while left and wait:
            left = await self.continue_flow(flow_id)
        return left

    async def _member_ids(self, flow_id: FlowId, most: int | None = None) -> tuple[ExecutionId, ...]:
        found: list[ExecutionId] = []
        more = True
        while more and (most is None or len(found) < most):
            fields = await self._call_flow("list_flow_members", flow_id, start=len(found), limit=1_000)
            with reading("members of flow", flow_id):
                found += [ExecutionId(each.texts(0)[0]) for each in fields.entries(0)]
            more = fields.text(1) == "1"
        return tuple(found[:most])

    async def _submit_part(self, flow_id: FlowId, part: GraphPart) -> Fields:
        return await self._call_flow("submit_flow", flow_id, request=part.request, payloads=part.payloads)

    async def _submitted(self, flow_id: FlowId, fields: Fields, *, is_new: bool) -> c.FlowSubmitted:
        """The reply of the last part, after everything eligible was started."""
        state = c.FlowState(fields.text(4))
        left = fields.text(5) == "1"
        while left:
            left = await self.continue_flow(flow_id)
        kind = c.FlowSubmitted if is_new else c.FlowAlreadySubmitted
        return kind(
            flow_id=flow_id,
            graph_revision=fields.number(1),
            node_count=fields.number(2),
            edge_count=fields.number(3),
            public_flow_state=state,
        )

    def _check_partition(self, flow_id: FlowId, execution_id: ExecutionId) -> None:
        tag = flow_partition(flow_id, self.partitions).tag
        if execution_id.tag != tag:
            raise InvalidInput("execution_id", execution_id, f"must be of the flow's partition {tag}")

    def _core(self, flow_id: FlowId) -> str:
        return keys.flow_core(flow_partition(flow_id, self.partitions).tag, flow_id)

    async def _call_flow(self, operation: str, flow_id: FlowId, **args: Value) -> Fields:
        args["flow_id"] = flow_id
        return await self._caller.call(operation, {"flow_core": self._core(flow_id)}, args, subject=flow_id)


class ValkeyEdges:
    """Single edges and joins."""

    _caller: FunctionCaller
    partitions: PartitionConfig

    async def stage_dependency_edge(self, args: c.StageDependencyEdgeArgs) -> c.StageDependencyEdgeResult:
        tag = flow_partition(args.flow_id, self.partitions).tag
        fields = await self._caller.call(
            "stage_dependency_edge",
            {"flow_core": keys.flow_core(tag, args.flow_id)},
            {
                "flow_id": args.flow_id,
                "edge_id": args.edge_id,
                "upstream_execution_id": args.upstream_execution_id,
                "downstream_execution_id": args.downstream_execution_id,
                "dependency_kind": args.dependency_kind,
                "data_passing_ref": args.data_passing_ref,
                "expected_graph_revision": str(args.expected_graph_revision),
            },
            subject=args.flow_id,
        )
        return c.DependencyEdgeStaged(edge_id=EdgeId(fields.text(0)), new_graph_revision=fields.number(1))

    async def apply_dependency_to_child(self, args: c.ApplyDependencyToChildArgs) -> c.ApplyDependencyToChildResult:
        fields = await self._caller.call_execution(
            "apply_dependency_to_child",
            args.downstream_execution_id,
            flow_id=args.flow_id,
            edge_id=args.edge_id,
            upstream_execution_id=args.upstream_execution_id,
            graph_revision=str(args.graph_revision),
        )
        if fields.text(0) == "already_applied":
            return c.DependencyAlreadyApplied()
        return c.DependencyApplied(unsatisfied_count=fields.number(0))

    async def resolve_dependency(self, args: c.ResolveDependencyArgs) -> c.ResolveDependencyResult:
        fields = await self._caller.call_execution(
            "resolve_dependency",
            args.downstream_execution_id,
            edge_id=args.edge_id,
            upstream_outcome=args.upstream_outcome,
        )
        match fields.text(0):
            case "satisfied":
                return c.DependencySatisfied()
            case "impossible":
                return c.DependencyImpossible()
            case "already_resolved":
                return c.DependencyAlreadyResolved()
            case _:
                return c.DependencyPending()

    async def set_edge_group_policy(self, args: c.SetEdgeGroupPolicyArgs) -> c.SetEdgeGroupPolicyResult:
        tag = flow_partition(args.flow_id, self.partitions).tag
        if args.downstream_execution_id.tag != tag:
            problem = f"must be of the flow's partition {tag}"
            raise InvalidInput("downstream_execution_id", args.downstream_execution_id, problem)
        variant, on_satisfied, k = policy_fields(args.policy)
        fields = await self._caller.call(
            "set_edge_group_policy",
            {
                "flow_core": keys.flow_core(tag, args.flow_id),
                "edgegroup": keys.edge_group(tag, args.flow_id, args.downstream_execution_id),
            },
            {"policy_variant": variant, "on_satisfied": on_satisfied, "k": str(k)},
            subject=args.flow_id,
        )
        return c.EdgeGroupPolicySet() if fields.text(0) == "set" else c.EdgeGroupPolicyAlreadySet()

    async def evaluate_flow_eligibility(self, args: c.EvaluateFlowEligibilityArgs) -> c.EvaluateFlowEligibilityResult:
        fields = await self._caller.call_execution("evaluate_flow_eligibility", args.execution_id)
        return c.FlowEligibility(status=fields.text(0))

    async def promote_blocked_to_eligible(
        self, args: c.PromoteBlockedToEligibleArgs
    ) -> c.PromoteBlockedToEligibleResult:
        await self._caller.call_execution("promote_blocked_to_eligible", args.execution_id)
        return c.BlockedPromoted()
