"""One lease by hand: claims from grants, one end, and what is said of the lease."""

from __future__ import annotations

import gc
import logging
from collections.abc import AsyncIterator

import pytest

from flowfabric.client.fabric import Fabric
from flowfabric.client.tasks.task import named
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId, WorkerId, WorkerInstanceId
from flowfabric.core.partition import PartitionKey
from flowfabric.errors import BackendUnavailable, Conflict, ExecutionNotActive, InvalidInput, LeaseRevoked
from flowfabric.worker import ClaimedTask, Claims
from tests.working import Store, clean_store

LANE = LaneId("default")
WHO = {"worker_id": WorkerId("worker"), "worker_instance_id": WorkerInstanceId("worker-1")}
JOB = named("job", tags={"team.name": "tides"})


@pytest.fixture
async def store(embedded_url: str) -> AsyncIterator[Store]:
    async with clean_store(embedded_url) as opened:
        yield opened


@pytest.fixture
def claims(store: Store) -> Claims:
    return Claims(store.backend, **WHO, renew=False)  # type: ignore[arg-type]


async def granted(store: Store, execution_id: ExecutionId) -> c.ClaimGrant:
    args = c.IssueClaimGrantArgs(execution_id=execution_id, lane_id=LANE, grant_ttl_ms=5_000, **WHO)  # type: ignore[arg-type]
    issued = await store.backend.issue_claim_grant(args)
    key = execution_id.tag
    return c.ClaimGrant(
        execution_id=execution_id,
        partition_key=PartitionKey(key),
        grant_key=key,
        expires_at_ms=issued.expires_at_ms or 0,
    )


async def claimed(store: Store, claims: Claims) -> ClaimedTask:
    execution_id = await store.submit(JOB, 1)
    return await claims.claim_from_grant(LANE, await granted(store, execution_id))


async def test_a_grant_becomes_a_task_with_everything_to_run_it(store: Store, claims: Claims) -> None:
    task = await claimed(store, claims)
    assert (task.execution_kind, task.attempt_index, task.lane_id) == ("job", 0, "default")
    assert task.input_payload == JOB.encode_arguments(1)
    assert task.tags == {"team.name": "tides"}
    assert (task.lease_epoch, task.lease_id, task.attempt_id) == (1, task.fence.lease_id, task.fence.attempt_id)
    await task.update_progress(30, "so far")
    await task.renew_lease()
    assert task.is_lease_healthy
    done = await task.complete(b"[1]", result_encoding="json")
    assert done.public_state == "completed"
    assert await store.backend.get_execution_result(task.execution_id) == c.ExecutionResult(
        payload=b"[1]", encoding="json"
    )


async def test_the_inputs_of_a_member_are_the_results_of_its_upstreams(store: Store, claims: Claims) -> None:
    async with Fabric(store.backend).flow("by hand") as flow:
        first = flow.add(JOB, 1)
        second = flow.add(JOB, first, after=flow.add(JOB, 2))
    for node in (first, flow.nodes["job-2"]):
        task = await claims.claim_from_grant(LANE, await granted(store, node.id))
        assert await task.inputs() == []
        await task.complete(b"[1]", result_encoding="json")
    task = await claims.claim_from_grant(LANE, await granted(store, second.id))
    (given,) = await task.inputs()
    assert (given.data_passing_ref, given.upstream_execution_id, given.payload) == ("job", first.id, b"[1]")
    await task.complete()


async def test_an_interrupted_attempt_goes_on(store: Store, claims: Claims) -> None:
    first = await claimed(store, claims)
    await first.delay_execution(store.clock.now_ms)
    again = await claims.claim_from_grant(LANE, await granted(store, first.execution_id))
    assert (again.attempt_id, again.attempt_index) == (first.attempt_id, 0)
    await again.delay_execution(store.clock.now_ms)
    grant = await granted(store, first.execution_id)
    resume = c.ResumeGrant(
        execution_id=grant.execution_id,
        partition_key=grant.partition_key,
        grant_key=grant.grant_key,
        expires_at_ms=grant.expires_at_ms,
        lane_id=LANE,
    )
    resumed = await claims.claim_from_resume_grant(resume)
    assert (resumed.attempt_id, resumed.lease_epoch) == (first.attempt_id, 3)
    await resumed.cancel("enough")


async def test_a_lost_attempt_is_replaced(store: Store, claims: Claims) -> None:
    lost = await claimed(store, claims)
    await store.revoke(lost.execution_id)
    args = c.IssueReclaimGrantArgs(execution_id=lost.execution_id, lane_id=LANE, grant_ttl_ms=5_000, **WHO)  # type: ignore[arg-type]
    issued = await store.backend.issue_reclaim_grant(args)
    assert isinstance(issued, c.ReclaimGrantIssued)
    task = await claims.claim_from_reclaim_grant(issued.grant)
    assert isinstance(task, ClaimedTask)
    assert task.attempt_index == 1
    assert isinstance(await claims.claim_from_reclaim_grant(issued.grant), c.NotReclaimable | c.GrantNotFound)
    with pytest.raises(Conflict):
        await lost.complete()
    assert isinstance(await task.fail("broken", "mine"), c.TerminalFailed)


async def test_a_task_is_ended_once(store: Store, claims: Claims) -> None:
    task = await claimed(store, claims)
    await task.complete()
    for call in (task.complete(), task.fail("x"), task.cancel("x"), task.renew_lease(), task.update_progress(1)):
        with pytest.raises(InvalidInput, match="has ended"):
            await call


async def test_waiting_for_children_needs_some(store: Store, claims: Claims) -> None:
    task = await claimed(store, claims)
    with pytest.raises(Conflict):
        await task.move_to_waiting_children()


async def test_a_lost_lease_is_unhealthy(store: Store, claims: Claims) -> None:
    task = await claimed(store, claims)
    await store.revoke(task.execution_id)
    with pytest.raises(LeaseRevoked):
        await task.renew_lease()
    assert not task.is_lease_healthy
    assert task.consecutive_renewal_failures == 1
    with pytest.raises(LeaseRevoked):
        await task.complete()


async def test_an_end_that_was_not_answered_can_be_said_again(
    store: Store, claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await claimed(store, claims)

    async def unreachable(args: c.CompleteExecutionArgs) -> c.CompleteExecutionResult:
        raise BackendUnavailable("gone", sent=True)

    with monkeypatch.context() as patched:
        patched.setattr(store.backend, "complete_execution", unreachable)
        with pytest.raises(BackendUnavailable):
            await task.complete()
    await task.complete()


async def test_the_lease_is_renewed_in_the_background_until_it_is_lost(store: Store) -> None:
    claims = Claims(store.backend, **WHO, lease_ttl_ms=60)  # type: ignore[arg-type]
    task = await claimed(store, claims)
    async for event in _leases(store, task.execution_id):
        if event is not None:
            break
    await store.cancel(task.execution_id)
    while task.is_lease_healthy:
        await store.snapshot(task.execution_id)
    with pytest.raises(ExecutionNotActive):
        await task.complete()


async def _leases(store: Store, execution_id: ExecutionId) -> AsyncIterator[int | None]:
    while True:
        lease = (await store.snapshot(execution_id)).current_lease
        assert lease is not None
        yield lease.last_heartbeat_at


async def test_a_task_that_is_dropped_is_warned_of(
    store: Store, claims: Claims, caplog: pytest.LogCaptureFixture
) -> None:
    task = await claimed(store, claims)
    task.start_renewal()
    execution_id = task.execution_id
    with caplog.at_level(logging.WARNING):
        del task
        gc.collect()
    assert f"{execution_id.short} was dropped without an end" in caplog.text


async def test_its_holder_appends_frames_while_it_lasts(store: Store, claims: Claims) -> None:
    task = await claimed(store, claims)
    first = await task.append_frame("delta", b"tides", '{"model":"m"}', encoding="utf8")
    await task.append_frame("state", b'{"done":1}', mode=c.StreamMode.SUMMARY)
    read = c.ReadFramesArgs(execution_id=task.execution_id, attempt_index=0)
    frames = (await store.backend.read_attempt_stream(read)).frames
    assert [(frame.frame_type, frame.payload) for frame in frames] == [("delta", b"tides"), ("state", b'{"done":1}')]
    assert (frames[0].id, frames[0].metadata_json) == (first.entry_id, '{"model":"m"}')
    await task.complete()
    with pytest.raises(InvalidInput, match="has ended"):
        await task.append_frame("delta", b"too late")
