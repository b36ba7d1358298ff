"""A store with something of everything, under names of one's choice: every kind of key there is shows itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flowfabric.core import contracts as c
from flowfabric.core.conditions import Count, CountKind
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import BudgetId, LaneId, Namespace, QuotaPolicyId, WaitpointKey, WorkerInstanceId
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements, StreamPolicy
from flowfabric.core.states import BlockingReason
from tests.conformance.driver import RETRYING, TTL, WORKER, Subject
from tests.conformance.flowing import Graph
from tests.conformance.limiting import partition_of
from tests.conformance.suspending import Suspender, fresh
from tests.valkey.driver import Driver, Limits
from tests.valkey.invariants import key_names


class Names(NamedTuple):
    """All that callers may name."""

    lane: str = "lane-1"
    namespace: str = "namespace-1"
    capability: str = "capability-1"
    concurrency_key: str = "concurrency-1"
    tag_value: str = "value-1"
    idempotency_key: str = "idempotency-1"
    signal_key: str = "signal-1"
    usage_key: str = "usage-1"
    instance: str = "instance-1"


class Named(Driver):
    """A driver that uses the names throughout."""

    def __init__(self, driver: Driver, names: Names) -> None:
        super().__init__(driver.probe)
        self.names = names
        self.lane, self.instance = LaneId(names.lane), WorkerInstanceId(names.instance)

    async def submit(self, **overrides: Any) -> c.CreateExecutionResult:
        given = {"lane_id": self.lane, "namespace": Namespace(self.names.namespace), **overrides}
        return await super().submit(**{"execution_id": self.mint(self.lane), **given})

    async def grant(self, x: Subject, **overrides: Any) -> c.IssueClaimGrantResult:
        return await super().grant(x, lane_id=self.lane, worker_instance_id=self.instance, **overrides)

    def claim_args(self, x: Subject, **overrides: Any) -> c.ClaimExecutionArgs:
        return super().claim_args(x, lane_id=self.lane, worker_instance_id=self.instance, **overrides)

    def one_step_args(self, x: Subject, **overrides: Any) -> c.IssueGrantAndClaimArgs:
        return super().one_step_args(x, lane_id=self.lane, worker_instance_id=self.instance, **overrides)

    async def take(self, count: int = 1, **overrides: Any) -> list[Subject]:
        return await super().take(count, lane_id=self.lane, worker_instance_id=self.instance, **overrides)


@dataclass
class WholeStore:
    """What was made, and the names of all keys that were seen on the way."""

    driver: Named
    limits: Limits
    seen: set[str] = field(default_factory=set)
    executions: dict[str, Subject] = field(default_factory=dict)
    budget: BudgetId = field(default_factory=BudgetId.new)
    quota: QuotaPolicyId = field(default_factory=QuotaPolicyId.new)
    waitpoint: c.IssuedWaitpoint | None = None
    flow: Graph | None = None

    @property
    def names(self) -> Names:
        return self.driver.names

    async def look(self) -> None:
        self.seen |= set(await key_names(self.driver.backend.client))


USUAL = Names()


async def whole_store(driver: Driver, names: Names = USUAL) -> WholeStore:
    named = Named(driver, names)
    store = WholeStore(named, Limits(named))
    for part in (_queues, _attempts, _waits, _limits, _flows, _workers):
        await part(store)
        await store.look()
    return store


async def _queues(store: WholeStore) -> None:
    """Work in every queue, with labels and keys."""
    d, names = store.driver, store.names
    needs = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=(names.capability,)))
    shared = {"concurrency_key": names.concurrency_key}
    more = {"tags": {"team.color": names.tag_value}, "idempotency_key": names.idempotency_key}
    store.executions["queued"] = await d.create(policy=needs, input_payload=b"in", **shared, **more)
    await d.create(policy=needs, **shared)
    running = store.executions["keyed"] = await d.create(**shared)
    await d.grant_and_claim(running)
    await d.create(**shared)
    await d.create(delay_until=d.clock.now_ms + 60_000)
    await d.block(await d.create(), BlockingReason.PAUSED_BY_OPERATOR)
    await d.block(await d.create(), BlockingReason.WAITING_FOR_CAPABLE_WORKER)
    await d.grant(await d.create())
    await d.backend.configure_lane(c.ConfigureLaneArgs(lane_id=d.lane, max_concurrency=1_000, key_concurrency=1))


async def _attempts(store: WholeStore) -> None:
    """Attempts that failed, ran and ended, with output of every kind."""
    d = store.driver
    x = store.executions["retried"] = await d.create(policy=RETRYING, input_payload=b"in")
    for _ in range(2):
        await d.run(x, attempt_policy_json='{"model":"m"}')
        for mode in c.StreamMode:
            await d.append(x, b"{}", mode=mode)
        await d.progress(x, progress_message="half")
        if not x.attempt_index:
            await d.fail(x, retry_policy_json=None)
            await d.clock.advance(5_000)
            await d.promote(x)
    step = c.RecordStepArgs(execution_id=x.execution_id, fence=x.fence, step=c.StepKey(name="charge"), payload=b"paid")
    await d.backend.record_step(step)
    kept = ExecutionPolicy(stream_policy=StreamPolicy(retention_ttl_ms=3_600_000))
    done = store.executions["completed"] = await d.create(policy=kept)
    await d.run(done)
    await d.complete(done)
    failed = store.executions["failed"] = await d.create()
    await d.run(failed)
    await d.fail(failed)


async def _waits(store: WholeStore) -> None:
    """One that waits for two signals, one of which has come, and one that waits ahead of its wait."""
    d = store.driver
    waits = Suspender(d)
    await waits.seed()
    x = store.executions["suspended"] = await d.create()
    await d.run(x)
    early = await waits.pending(x, "early")
    await waits.pending(x, "unused")
    await waits.signal(x, early, payload=b"!", idempotency_key=store.names.signal_key)
    keys = (WaitpointKey("early"), WaitpointKey("late"))
    pending = c.PendingWaitpoint(waitpoint_id=early.waitpoint_id, waitpoint_key=keys[0])
    both = Count(2, CountKind.DISTINCT_WAITPOINTS, keys)
    store.waitpoint = (await waits.suspend(x, both, pending, fresh("late"), timeout_ms=60_000)).waitpoints[1]
    await store.look()
    single = store.executions["resumed"] = await d.create()
    await d.run(single)
    at = (await waits.suspend(single)).waitpoints[0]
    await waits.signal(single, at, payload=b"?")


async def _limits(store: WholeStore) -> None:
    """A budget that is passed, a quota that counts lanes apart, and who waits for them."""
    d, limits, names = store.driver, store.limits, store.names
    store.budget = await limits.budget({"tokens": 10, "attempts": 100}, {"tokens": 5}, reset_interval_ms=60_000)
    spender = store.executions["spender"] = await limits.submit(budgets=(store.budget,))
    (held,) = await d.take(execution_ids=(spender.execution_id,), count=1)
    reservation, _ = await limits.reserve(store.budget, held, tokens=1)
    await store.look()
    await limits.settle(store.budget, held, reservation, tokens=1)
    await limits.spend(store.budget, held, names.usage_key, tokens=20)
    await d.complete(held)
    await limits.drain(held)
    store.quota = await limits.quota(max_concurrent=1, key_by=c.QuotaKey.LANE)
    first, *others = [await limits.submit(quotas=(store.quota,)) for _ in range(3)]
    (held,) = await d.take(execution_ids=(first.execution_id,), count=1)
    await d.backend.claim_executions(_claim(d, execution_ids=tuple(each.execution_id for each in others)))
    done = c.CompleteExecutionArgs(execution_id=held.execution_id, fence=held.fence, result_payload=b"")
    args = b.FinishExecutionsArgs(partition=partition_of(held), finish=(done,), claim=_claim(d, count=1))
    await d.backend.finish_executions(args)  # the slot passes on to the second
    store.executions["limited"] = others[1]
    await store.look()
    await limits.backend.attach_limit(
        c.AttachLimitArgs(
            limit_kind=c.LimitKind.BUDGET, limit_id=store.budget, scope_type=c.LimitScope.LANE, scope_id="another"
        )
    )


async def _flows(store: WholeStore) -> None:
    """A flow with joins and results that are passed on, half of it done."""
    flow = store.flow = Graph(store.driver)
    whole = flow.args("a>c b>c c>d", {"c": c.AnyOfEdges(on_satisfied=c.OnSatisfied.LET_RUN)}, passing=True)
    await store.driver.backend.submit_flow(whole)
    await store.driver.backend.set_flow_tags(c.SetFlowTagsArgs(flow_id=flow.flow_id, tags={"team.color": "red"}))


async def _workers(store: WholeStore) -> None:
    d = store.driver
    await d.backend.register_worker(
        c.RegisterWorkerArgs(
            namespace=Namespace(store.names.namespace), worker_id=WORKER, worker_instance_id=d.instance,
            lanes=(d.lane,), capabilities=(store.names.capability,), ttl_ms=TTL, tasks=(c.TaskEntry(name="kind"),),
        )
    )  # fmt: skip
    await d.backend.hold_share(c.HoldShareArgs(replica_id="engine-1", ttl_ms=TTL))
    await d.backend.claim_executions(_claim(d))


def _claim(d: Named, **more: Any) -> b.ClaimExecutionsArgs:
    given = {"lane_id": d.lane, "worker_id": WORKER, "worker_instance_id": d.instance, "lease_ttl_ms": TTL, **more}
    return b.ClaimExecutionsArgs(**given)
