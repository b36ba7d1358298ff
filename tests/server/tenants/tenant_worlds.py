"""Two tenants of one store with the same things: executions in several states, a flow, limits, waitpoints."""

from __future__ import annotations

import re
import uuid
from typing import Any, Final

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.library.calls import at_once
from flowfabric.client.ordered_uuids import OrderedUuids
from flowfabric.core import contracts as c
from flowfabric.core.conditions import Single
from flowfabric.core.ids import (
    AttemptId,
    BudgetId,
    EdgeId,
    ExecutionId,
    FlowId,
    LaneId,
    LeaseId,
    Namespace,
    QuotaPolicyId,
    SignalId,
    SuspensionId,
    WaitpointId,
    WaitpointKey,
    WaitpointToken,
    WorkerId,
    WorkerInstanceId,
)
from flowfabric.core.partition import flow_partition
from flowfabric.core.tokens import Kid, SecretHex

TAG: Final = "{fp:7}"  # all of it is in one partition, as tenants of one store share all of them
SECRET: Final = "ab" * 32
_UUID: Final = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VARYING: Final = re.compile(r"\d{13}(?:-\d+)?|k1:[0-9a-f]{40,64}|(?<=\"opaque\":\")[^\"]+")


_UUIDS: Final = OrderedUuids()  # those of one millisecond wait in the order of their ids


def new_execution() -> ExecutionId:
    return ExecutionId(f"{TAG}:{_UUIDS.next()}")


def new_flow(backend: ValkeyBackend) -> FlowId:
    while True:
        found = FlowId(str(uuid.uuid4()))
        if flow_partition(found, backend.partitions).tag == TAG:
            return found


class World:
    """What one tenant has, by name."""

    def __init__(self, backend: ValkeyBackend, namespace: str) -> None:
        self.backend = backend
        self.namespace = Namespace(namespace)
        self.ids: dict[str, str] = {
            "waiting": new_execution(), "running": new_execution(), "suspended": new_execution(),
            "member": new_execution(), "member2": new_execution(), "member3": new_execution(),
            "stand_in": new_execution(), "new": new_execution(), "new2": new_execution(),
            "flow": new_flow(backend), "child": new_flow(backend), "new_flow": new_flow(backend),
            "budget": BudgetId.new(), "quota": QuotaPolicyId.new(), "edge": EdgeId.new(), "new_edge": EdgeId.new(),
            "lease": LeaseId.new(), "attempt": AttemptId.new(), "suspension": SuspensionId.new(),
            "waitpoint": WaitpointId.new(), "pending": WaitpointId.new(), "new_waitpoint": WaitpointId.new(),
            "signal": SignalId.new(), "told": SignalId.new(), "instance": WorkerInstanceId(f"worker-{uuid.uuid4()}"),
            "new_suspension": SuspensionId.new(),
        }  # fmt: skip
        self.token = WaitpointToken("")
        self.fence = c.LeaseFence(
            lease_id=LeaseId(self.ids["lease"]), lease_epoch=1, attempt_id=AttemptId(self.ids["attempt"])
        )

    def execution(self, name: str) -> ExecutionId:
        return ExecutionId(self.ids[name])

    async def fill(self) -> World:
        """Make all of it."""
        if not await self.backend.client.execute("EXISTS", f"ff:sec:{TAG}:waitpoint_hmac"):
            await self.backend.seed_waitpoint_hmac_secret(
                c.SeedWaitpointHmacSecretArgs(kid=Kid("k1"), secret_hex=SecretHex(SECRET))
            )
        await self._limits()
        for name in ("waiting", "running", "suspended"):
            await self.backend.create_execution(self.created(name))
        await self._flow()
        await self._run("running", self.fence)
        await self._suspend()
        await self._log()
        await self._register()
        return self

    async def _log(self) -> None:
        """Two records of the running execution, so that there is a second page."""
        entries = tuple(c.LogEntry(at_ms=1, level=20, message=f"log of {self.namespace}") for _ in range(2))
        await self.backend.append_logs(
            c.AppendLogsArgs(
                execution_id=self.execution("running"),
                attempt_index=0,
                attempt_id=self.fence.attempt_id,
                writer="w",
                first_number=0,
                entries=entries,
            )
        )

    async def _register(self) -> None:
        """Workers that have ended, each with two tasks: of the tenant, and of the default namespace."""
        for namespace in (self.namespace, Namespace("default")):
            worker = WorkerInstanceId(f"{namespace}-1")
            await self.backend.register_worker(
                c.RegisterWorkerArgs(
                    namespace=namespace,
                    worker_id=WorkerId("worker"),
                    worker_instance_id=worker,
                    lanes=(LaneId("default"),),
                    ttl_ms=30_000,
                    tasks=(c.TaskEntry(name=f"a of {namespace}"), c.TaskEntry(name=f"b of {namespace}")),
                )
            )
            await self.backend.mark_worker_dead(c.MarkWorkerDeadArgs(namespace=namespace, worker_instance_id=worker))

    def created(self, name: str, **more: Any) -> c.CreateExecutionArgs:
        return c.CreateExecutionArgs(
            execution_id=self.execution(name),
            namespace=self.namespace,
            lane_id=LaneId("default"),
            execution_kind="kind",
            input_payload=f"secret of {self.namespace}".encode(),
            **more,
        )

    async def _limits(self) -> None:
        budget = c.CreateBudgetArgs(
            budget_id=BudgetId(self.ids["budget"]),
            dimensions=("tokens",),
            hard_limits=(1_000,),
            soft_limits=(0,),
            namespace=self.namespace,
        )
        await self.backend.create_budget(budget)
        quota = c.CreateQuotaPolicyArgs(
            quota_policy_id=QuotaPolicyId(self.ids["quota"]), max_concurrent=5, namespace=self.namespace
        )
        await self.backend.create_quota_policy(quota)

    async def _flow(self) -> None:
        edge = c.FlowEdge(
            edge_id=EdgeId(self.ids["edge"]),
            upstream_execution_id=self.execution("member"),
            downstream_execution_id=self.execution("member2"),
        )
        names = ("member", "member2", "member3", "stand_in")
        await self.backend.submit_flow(
            c.SubmitFlowArgs(
                flow_id=FlowId(self.ids["flow"]),
                namespace=self.namespace,
                members=tuple(self.created(name) for name in names),
                edges=(edge,),
                child_flows={self.execution("stand_in"): FlowId(self.ids["child"])},
            )
        )

    async def _run(self, name: str, fence: c.LeaseFence) -> None:
        await self.backend.issue_grant_and_claim(
            c.IssueGrantAndClaimArgs(
                execution_id=self.execution(name),
                worker_id=WorkerId("worker"),
                worker_instance_id=WorkerInstanceId(self.ids["instance"]),
                lane_id=LaneId("default"),
                lease_id=fence.lease_id,
                lease_ttl_ms=600_000,
                attempt_id=fence.attempt_id,
            )
        )

    async def _suspend(self) -> None:
        pending = c.CreatePendingWaitpointArgs(
            execution_id=self.execution("running"),
            fence=self.fence,
            attempt_index=0,
            waitpoint_id=WaitpointId(self.ids["pending"]),
            waitpoint_key=WaitpointKey("early"),
            expires_in_ms=600_000,
        )
        made = await self.backend.create_pending_waitpoint(pending)
        await self.backend.deliver_signal(
            c.DeliverSignalArgs(
                execution_id=self.execution("running"),
                waitpoint_id=made.waitpoint_id,
                waitpoint_token=made.waitpoint_token,
                signal_id=SignalId(self.ids["told"]),
                signal_name="early",
            )
        )
        fence = c.LeaseFence(lease_id=LeaseId.new(), lease_epoch=1, attempt_id=AttemptId.new())
        await self._run("suspended", fence)
        fresh = c.FreshWaitpoint(
            waitpoint_id=WaitpointId(self.ids["waitpoint"]), waitpoint_key=WaitpointKey("approval")
        )
        suspended = await self.backend.suspend_execution(
            c.SuspendExecutionArgs(
                execution_id=self.execution("suspended"),
                fence=fence,
                attempt_index=0,
                suspension_id=SuspensionId(self.ids["suspension"]),
                waitpoints=(fresh,),
                resume_condition=Single("approval"),
            )
        )
        self.token = suspended.waitpoint_token

    def part_of(self, dumped: dict[bytes, object]) -> dict[bytes, object]:
        """The keys of this tenant's own things; those of workers are the store's."""
        own = {value.rpartition(":")[2].encode() for name, value in self.ids.items() if name != "instance"}
        return {key: value for key, value in dumped.items() if (found := _UUID.search(key)) and found[0] in own}

    def named(self, text: str) -> str:
        """A text with names in place of this world's ids, and of times, tokens and handles."""
        for name, value in self.ids.items():
            text = text.replace(value, f"<{name}>").replace(value.rpartition(":")[2], f"<{name}>")
        return _VARYING.sub("<varies>", text)


async def dump(backend: ValkeyBackend) -> dict[bytes, object]:
    """All keys of the store, byte for byte."""
    keys: Any = await backend.client.execute("KEYS", "*")
    return dict(zip(keys, await at_once(backend.client.execute("DUMP", key) for key in keys), strict=True))
