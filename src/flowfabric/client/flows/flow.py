"""Build and submit a flow: nodes are added in a block, and the whole graph is sent at its end."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self
from uuid import NAMESPACE_URL, UUID, uuid5

from flowfabric import tracing
from flowfabric.backends.ports import EngineBackend
from flowfabric.client.flows.builder import FlowBuilder, checked_name, checked_policy, choose_options
from flowfabric.client.flows.graph import graph_of
from flowfabric.client.flows.handle import FlowHandle
from flowfabric.client.tasks.submission import Submitter
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.ids import ExecutionId, FlowId, LaneId, Namespace
from flowfabric.core.partition import flow_partition
from flowfabric.core.tags import tag_map
from flowfabric.errors import InvalidInput

if TYPE_CHECKING:
    from flowfabric.client.fabric import Fabric


class Flow(FlowBuilder):
    """`async with fabric.flow("research") as flow: ...`; if the block raises, nothing is sent.

    `id` is known from the start, `handle` after the block.
    """

    def __init__(
        self,
        fabric: Fabric,
        name: str,
        *,
        lane: str = "default",
        failure_policy: c.FailurePolicy | str = c.FailurePolicy.CONTINUE,
        idempotency_key: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        partitions = fabric.backend.partitions
        self.lane_id = LaneId(lane)
        uuid = _uuid(fabric.namespace, checked_name(name), self.lane_id, idempotency_key)
        self.id = FlowId.for_lane(self.lane_id, partitions, uuid)
        super().__init__(name, partitions, flow_partition(self.id, partitions).tag, self.id)
        self.failure_policy = checked_policy(failure_policy)
        self.tags = tag_map(tags or {})
        self._fabric = fabric
        self._handle: FlowHandle | None = None

    @property
    def handle(self) -> FlowHandle:
        """The submitted flow."""
        if self._handle is None:
            raise InvalidInput("flow", self.name, "has no handle yet; it is submitted at the end of its block")
        return self._handle

    @property
    def is_submitted(self) -> bool:
        return self._handle is not None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.submit()

    async def submit(self) -> FlowHandle:
        """Validate the graph and send it."""
        if self.is_submitted:
            raise InvalidInput("flow", self.name, "was submitted already; flow.handle is its handle")
        backend = self._fabric.backend
        await choose_options(self, self._fabric._registered)
        with tracing.span("submit", self.name, "PRODUCER", flow_id=self.id, lane=self.lane_id, count=len(self.nodes)):
            outcome = await send(backend, whole_flow(self, self.id, self.failure_policy, self._fabric._submitter))
            if self.tags:
                await backend.set_flow_tags(c.SetFlowTagsArgs(flow_id=self.id, tags=self.tags))
        self.mark_sent()
        is_known = isinstance(outcome, c.FlowAlreadySubmitted)
        self._handle = FlowHandle(backend, self.id, nodes=self.nodes, submission="duplicate" if is_known else "created")
        return self._handle


class WholeFlow(NamedTuple):
    """The arguments of submit_flow for a flow, and its child flows."""

    args: c.SubmitFlowArgs
    children: list[WholeFlow]


def whole_flow(
    flow: FlowBuilder,
    flow_id: FlowId,
    policy: c.FailurePolicy,
    submitter: Submitter,
    parent: ExecutionId | None = None,
) -> WholeFlow:
    """The validated flow with its child flows; it is committed only after its child flows were submitted."""
    children = new_children(flow, submitter)
    args = c.SubmitFlowArgs(
        flow_id=flow_id,
        flow_kind=flow.name,
        namespace=submitter.namespace,
        failure_policy=policy,
        parent_execution_id=parent,
        commit=not children,
        **graph_of(flow, submitter)._asdict(),
    )
    return WholeFlow(args, children)


def new_children(flow: FlowBuilder, submitter: Submitter) -> list[WholeFlow]:
    """The child flows that were not sent yet."""
    new = [child for child in flow.children if not child.node.is_sent]
    return [whole_flow(child, child.flow_id, child.failure_policy, submitter, child.node.id) for child in new]


async def send(backend: EngineBackend, whole: WholeFlow) -> c.SubmitFlowResult:
    """Submit a flow, then its child flows. Nothing runs before all are submitted; the engine drops partial ones."""
    outcome = await backend.submit_flow(whole.args)
    if not whole.children:
        return outcome
    for child in whole.children:
        await send(backend, child)
    return await backend.grow_flow(c.GrowFlowArgs(flow_id=whole.args.flow_id, commit=True))


def _uuid(namespace: Namespace, name: str, lane_id: LaneId, key: str | None) -> UUID | None:
    """The UUID of a flow with an idempotency key: the same for the same key in the same lane. None without a key."""
    if key is None:
        return None
    limits.label("idempotency_key", key, 1, limits.IDEMPOTENCY_KEY_MAX_BYTES)
    return uuid5(NAMESPACE_URL, "\0".join(("flowfabric", namespace, name, lane_id, key)))
