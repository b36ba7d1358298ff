"""Bad input to each port raises the named error and leaves the key space byte for byte as it was (G11)."""

# mypy: disable-error-code="arg-type"
# Arguments of wrong types are what this file tests.

from __future__ import annotations

from collections.abc import Awaitable, Callable

from flowfabric.backends.ports import (
    BatchPort,
    EventPort,
    ExecutionPort,
    LanePort,
    LeasePort,
    ListingPort,
    ReadPort,
    RetentionPort,
    SchedulingPort,
)
from flowfabric.backends.ports.streams import StreamPort
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import ExecutionId
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.core.policy import policy_from_json
from flowfabric.errors import FlowFabricError, Invalid
from tests.conformance.bad_streams import BAD_STREAMS
from tests.conformance.driver import Driver, Subject

Bad = Callable[[Driver, Subject], Awaitable[object]]
ELSEWHERE = "{fp:65535}:00000000-0000-4000-8000-000000000000"
BIG = b"x" * (limits.PAYLOAD_MAX_BYTES + 1)
LONG = "x" * 100_000


def claim_request(x: Subject, **overrides: object) -> b.ClaimExecutionsArgs:
    args = {
        "partition": Partition(PartitionFamily.FLOW, x.execution_id.partition_index), "lane_id": "default",
        "worker_id": "w", "worker_instance_id": "w-1", "lease_ttl_ms": 1_000, **overrides,
    }  # fmt: skip
    return b.ClaimExecutionsArgs(**args)


def with_policy(text: str) -> Bad:
    return lambda d, x: d.create(policy=policy_from_json(text))


BAD: list[tuple[str, str, Bad]] = [
    ("create_execution", "execution_id", lambda d, x: d.create(execution_id="not-an-id")),
    ("create_execution", "execution_id", lambda d, x: d.create(execution_id="{fp:70000}:" + x.execution_id.uuid)),
    ("create_execution", "lane_id", lambda d, x: d.create(lane_id="l" * 65)),
    ("create_execution", "namespace", lambda d, x: d.create(namespace="")),
    ("create_execution", "execution_kind", lambda d, x: d.create(execution_kind="")),
    ("create_execution", "priority", lambda d, x: d.create(priority=-1)),
    ("create_execution", "priority", lambda d, x: d.create(priority=9001)),
    ("create_execution", "input_payload", lambda d, x: d.create(input_payload=BIG)),
    ("create_execution", "delay_until", lambda d, x: d.create(delay_until=-5)),
    ("create_execution", "execution_deadline_at", lambda d, x: d.create(execution_deadline_at=10**14)),
    ("create_execution", "tags", lambda d, x: d.create(tags={"two\nlines": "v"})),
    ("create_execution", "idempotency_key", lambda d, x: d.create(idempotency_key="")),
    ("create_execution", "max_retries", with_policy('{"retry_policy":{"max_retries":-1}}')),
    (
        "create_execution",
        "multiplier",
        with_policy('{"retry_policy":{"backoff":{"type":"exponential","multiplier":0}}}'),
    ),
    ("create_execution", "unknown", with_policy('{"unknown":1}')),
    ("create_execution", "required_capabilities",
     with_policy('{"routing_requirements":{"required_capabilities":["has space"]}}')),
    ("complete_execution", "result_payload", lambda d, x: d.complete(x, result_payload=BIG)),
    ("complete_execution", "execution_id", lambda d, x: d.complete(Subject("nonsense", x.fence))),
    ("fail_execution", "failure_reason", lambda d, x: d.fail(x, failure_reason=LONG)),
    ("fail_execution", "retry_delay_ms", lambda d, x: d.fail(x, retry_delay_ms=-1)),
    ("fail_execution", "retry_policy", lambda d, x: d.fail(x, retry_policy_json="{")),
    ("cancel_execution", "reason", lambda d, x: d.cancel(x, reason=LONG)),
    ("cancel_execution", "source", lambda d, x: d.cancel(x, source="me")),
    ("delay_execution", "delay_until", lambda d, x: d.delay(x, -1)),
    ("move_to_waiting_children", "fence", lambda d, x: d.move_to_waiting_children(Subject(x.execution_id, "mine"))),
    ("expire_execution", "expire_reason", lambda d, x: d.expire(x, "boredom")),
    ("replay_execution", "execution_id", lambda d, x: d.replay(Subject("{fp:1}:nope"))),
    ("retry_execution", "execution_id", lambda d, x: d.retry(Subject("{fp:1}:nope"))),
    ("fork_execution", "fork_id", lambda d, x: d.fork(x, fork_id=ELSEWHERE)),
    ("fork_execution", "changed", lambda d, x: d.fork(x, changed=("plan",))),
    ("change_priority", "new_priority", lambda d, x: d.change_priority(x, 9001)),
    ("watch_execution", "watcher_id", lambda d, x: d.backend.watch_execution(
        c.WatchExecutionArgs(execution_id=x.execution_id, watcher_id=x.execution_id))),
    ("update_progress", "progress_pct", lambda d, x: d.progress(x, progress_pct=101)),
    ("update_progress", "progress_message", lambda d, x: d.progress(x, progress_message=LONG)),
    ("set_execution_tags", "tags", lambda d, x: d.set_tags(x, **{"two\nlines": "v"})),
    ("claim_execution", "lease_ttl_ms", lambda d, x: d.claim(x, lease_ttl_ms=0)),
    ("claim_execution", "worker_id", lambda d, x: d.claim(x, worker_id="")),
    ("claim_execution", "lease_id", lambda d, x: d.claim(x, lease_id="1")),
    ("claim_execution", "attempt_policy_json", lambda d, x: d.claim(x, attempt_policy_json="{")),
    ("claim_resumed_execution", "lease_ttl_ms", lambda d, x: d.claim_resumed(x, lease_ttl_ms=-1)),
    ("issue_grant_and_claim", "worker_capabilities", lambda d, x: d.grant_and_claim(x, worker_capabilities=("a,b",))),
    ("reclaim_execution", "max_reclaim_count", lambda d, x: d.reclaim(x, max_reclaim_count=-1)),
    ("renew_lease", "lease_ttl_ms", lambda d, x: d.renew(x, lease_ttl_ms=limits.LEASE_TTL_MAX_MS + 1)),
    ("renew_lease", "attempt_index", lambda d, x: d.renew(x, attempt_index=-1)),
    ("mark_lease_expired_if_due", "execution_id", lambda d, x: d.mark_expired(Subject(""))),
    ("revoke_lease", "expected_lease_id", lambda d, x: d.revoke(x, expected_lease_id="all")),
    ("issue_claim_grant", "grant_ttl_ms", lambda d, x: d.grant(x, grant_ttl_ms=0)),
    ("issue_claim_grant", "worker_capabilities", lambda d, x: d.grant(x, worker_capabilities=("",))),
    ("issue_reclaim_grant", "grant_ttl_ms", lambda d, x: d.reclaim_grant(x, grant_ttl_ms=10**9)),
    ("block_execution_for_admission", "blocking_reason", lambda d, x: d.block(x, "moody")),
    ("unblock_execution", "expected_blocking_reason", lambda d, x: d.unblock(x, "moody")),
    ("promote_delayed", "execution_id", lambda d, x: d.promote(Subject("{fp:x}:y"))),
    ("set_lane_state", "state", lambda d, x: d.backend.set_lane_state(
        c.SetLaneStateArgs(lane_id="default", state="asleep"))),
    ("configure_lane", "max_concurrency", lambda d, x: d.configure(max_concurrency=0)),
    ("configure_lane", "key_concurrency", lambda d, x: d.configure(key_concurrency=-1)),
    ("configure_lane", "ageing_ms_per_priority", lambda d, x: d.configure(ageing_ms_per_priority=0)),
    ("configure_lane", "lane_id", lambda d, x: d.configure(lane_id="")),
    ("describe_lane", "lane_id", lambda d, x: d.backend.describe_lane("l" * 65)),
    ("list_lanes", "limit", lambda d, x: d.backend.list_lanes(c.ListLanesArgs(limit=0))),
    ("list_lanes", "cursor", lambda d, x: d.backend.list_lanes(c.ListLanesArgs(cursor=""))),
    ("claim_for_worker", "grant_ttl_ms", lambda d, x: d.backend.claim_for_worker(c.ClaimForWorkerArgs(
        lane_id="default", worker_id="w", worker_instance_id="w-1", grant_ttl_ms=0))),
    ("scan_eligible_executions", "limit", lambda d, x: d.backend.scan_eligible_executions(c.ScanEligibleArgs(
        lane_id="default", partition=Partition(PartitionFamily.FLOW, 1), limit=1_001))),
    ("block_route", "reason_code", lambda d, x: d.backend.block_route(
        c.BlockRouteArgs(execution_id=x.execution_id, lane_id="default", reason_code="moody"))),
    ("explain_execution", "execution_id", lambda d, x: d.backend.explain_execution(ExecutionId("x"))),
    ("create_execution", "on_duplicate", lambda d, x: d.create(on_duplicate="overwrite")),
    ("create_execution", "concurrency_key", lambda d, x: d.create(concurrency_key="k" * 257)),
    ("create_execution", "delay_ms", lambda d, x: d.create(delay_ms=-1)),
    ("describe_execution", "execution_id", lambda d, x: d.backend.describe_execution(ExecutionId("x"))),
    ("get_execution", "execution_id", lambda d, x: d.backend.get_execution(ExecutionId("x"))),
    ("get_execution_state", "execution_id", lambda d, x: d.backend.get_execution_state(ExecutionId("x"))),
    ("get_execution_result", "execution_id", lambda d, x: d.backend.get_execution_result(ExecutionId("x"))),
    ("read_execution_context", "execution_id", lambda d, x: d.backend.read_execution_context(ExecutionId("x"))),
    ("list_attempts", "limit", lambda d, x: d.backend.list_attempts(x.execution_id, limit=0)),
    ("submit_executions", "priority", lambda d, x: d.backend.submit_executions([
        c.CreateExecutionArgs(execution_id=d.mint(), namespace="n", lane_id="l", execution_kind="k", priority=-1)])),
    ("claim_executions", "count", lambda d, x: d.backend.claim_executions(claim_request(x, count=0))),
    ("claim_executions", "execution_id", lambda d, x: d.backend.claim_executions(
        claim_request(x, execution_ids=("x",)))),
    ("finish_executions", "partition", lambda d, x: d.backend.finish_executions(b.FinishExecutionsArgs(
        partition=Partition(PartitionFamily.FLOW, 1),
        finish=(c.CompleteExecutionArgs(execution_id=x.execution_id, fence=x.fence),)))),
    ("run_due_work", "limit", lambda d, x: d.backend.run_due_work(
        b.RunDueWorkArgs(partition=Partition(PartitionFamily.FLOW, 1), limit=0))),
    ("read_events", "limit", lambda d, x: d.backend.read_events(c.ReadEventsArgs(limit=1_001))),
    ("read_events", "events", lambda d, x: d.backend.read_events(c.ReadEventsArgs(events=("born",)))),
    ("read_events", "cursor", lambda d, x: d.backend.read_events(c.ReadEventsArgs(cursor="0-0"))),
    ("read_events", "partition", lambda d, x: d.backend.read_events(c.ReadEventsArgs(partition=7))),
    ("history", "limit", lambda d, x: d.backend.history(x.execution_id, limit=0)),
    ("wait_for_execution", "timeout_ms", lambda d, x: d.backend.wait_for_execution(x.execution_id, timeout_ms=-1)),
    ("wait_for_execution", "timeout_ms", lambda d, x: d.backend.wait_for_execution(x.execution_id, timeout_ms=1.5)),
    ("tail_events", "cursor", lambda d, x: anext(d.backend.tail_events(x.execution_id, cursor="now"))),
    ("list_executions", "limit", lambda d, x: d.backend.list_executions(c.ListExecutionsArgs(limit=0))),
    ("list_executions", "order", lambda d, x: d.backend.list_executions(c.ListExecutionsArgs(order="best"))),
    ("list_executions", "tags", lambda d, x: d.backend.list_executions(c.ListExecutionsArgs(tags={"": "v"}))),
    ("list_executions", "cursor", lambda d, x: d.backend.list_executions(c.ListExecutionsArgs(cursor="x"))),
    ("count_executions", "lane_id", lambda d, x: d.backend.count_executions("")),
    ("trim_executions", "older_than_ms", lambda d, x: d.backend.trim_executions(
        c.TrimExecutionsArgs(older_than_ms=-1))),
    ("trim_executions", "keep_last", lambda d, x: d.backend.trim_executions(
        c.TrimExecutionsArgs(keep_last=1, older_than_ms=1))),
    ("trim_executions", "cursor", lambda d, x: d.backend.trim_executions(c.TrimExecutionsArgs(cursor="x"))),
    *BAD_STREAMS,
]  # fmt: skip


async def test_bad_input_is_refused_by_name_and_changes_nothing(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    before = await driver.probe.dump()
    wrong = []
    for port, field, call in BAD:
        try:
            wrong.append(f"{port}, {field}: accepted, {await call(driver, x)}")
        except FlowFabricError as error:
            if not isinstance(error, Invalid) or field not in str(error):
                wrong.append(f"{port}, {field}: {error!r}")
        if await driver.probe.dump() != before:
            wrong.append(f"{port}, {field}: something was written")
            before = await driver.probe.dump()
    assert not wrong, "\n".join(wrong)


def test_every_port_is_given_bad_input() -> None:
    protocols = (
        ExecutionPort, LeasePort, SchedulingPort, LanePort, BatchPort, ReadPort, EventPort, ListingPort, RetentionPort,
        StreamPort,
    )  # fmt: skip
    ports = {name for protocol in protocols for name in vars(protocol) if not name.startswith("_")}
    assert ports == {port for port, _, _ in BAD}
