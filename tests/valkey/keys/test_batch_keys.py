"""A batch leaves the same keys as the same calls one by one."""

from __future__ import annotations

from typing import Any

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.library.calls import flat_to_dict
from flowfabric.core import contracts as c
from flowfabric.core.ids import AttemptId, ExecutionId, LeaseId
from flowfabric.testing import ManualClock
from tests.conformance.driver import INSTANCE, LANE, RETRYING, TTL, WORKER
from tests.conformance.lease.test_batch_surface import create_args, finish_args
from tests.event_log import lines_of
from tests.valkey.driver import Driver
from tests.valkey.probe import ValkeyProbe


async def test_a_batch_leaves_the_same_state_as_the_same_calls_one_by_one(backend: ValkeyBackend) -> None:
    one_by_one = await _tell(backend, batched=False)
    await backend.client.execute_on_primaries("FLUSHALL")
    in_batches = await _tell(backend, batched=True)
    assert in_batches == one_by_one
    assert len(one_by_one) > 20


async def _tell(backend: ValkeyBackend, *, batched: bool) -> dict[str, object]:
    """The same story both ways, at the same instants and with the same ids; answers the whole store."""
    clock = ManualClock(backend.client, 0)
    await clock.set(1_900_000_000_000)
    driver = Driver(ValkeyProbe(str(backend._address), backend, clock))
    ids = [ExecutionId.deterministic_for_lane(LANE, backend.partitions, _uuid(number)) for number in range(4)]
    creates = [create_args(driver, execution_id=each, policy=RETRYING, tags={"team.a": "1"}) for each in ids]
    if batched:
        await backend.submit_executions(creates)
    else:
        for args in creates:
            await ValkeyBackend.create_execution(backend, args)
    await clock.advance(5)
    fences = [
        c.LeaseFence(lease_id=LeaseId(_uuid(10 + n)), lease_epoch=1, attempt_id=AttemptId(_uuid(20 + n)))
        for n in range(4)
    ]
    for execution_id, fence in zip(ids, fences, strict=True):
        await ValkeyBackend.issue_grant_and_claim(
            backend,
            c.IssueGrantAndClaimArgs(
                execution_id=execution_id, worker_id=WORKER, worker_instance_id=INSTANCE, lane_id=LANE,
                lease_id=fence.lease_id, lease_ttl_ms=TTL, attempt_id=fence.attempt_id,
            ),
        )  # fmt: skip
    await clock.advance(5)
    complete = c.CompleteExecutionArgs(execution_id=ids[0], fence=fences[0], result_payload=b"r", result_encoding="raw")
    retry = c.FailExecutionArgs(execution_id=ids[1], fence=fences[1], failure_reason="r", failure_category="c")
    fail = c.FailExecutionArgs(
        execution_id=ids[2], fence=fences[2], failure_reason="r", failure_category="c", retry_policy_json=""
    )
    renew = c.RenewLeaseArgs(execution_id=ids[3], attempt_index=0, fence=fences[3], lease_ttl_ms=2 * TTL)
    if batched:
        await backend.finish_executions(finish_args(driver, finish=(complete, retry, fail), renew=(renew,)))
    else:
        await ValkeyBackend.complete_execution(backend, complete)
        await ValkeyBackend.fail_execution(backend, retry)
        await ValkeyBackend.fail_execution(backend, fail)
        await ValkeyBackend.renew_lease(backend, renew)
    return await _contents(backend)


def _uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


async def _contents(backend: ValkeyBackend) -> dict[str, object]:
    found: dict[str, object] = {}
    for node in await backend.client.primaries():
        for key in await node.execute("KEYS", "*"):  # type: ignore[union-attr]
            kind = await node.execute("TYPE", key)  # type: ignore[arg-type]
            found[key.decode()] = await _content(node, kind, key)  # type: ignore[union-attr]
    return found


async def _content(node: Any, kind: Any, key: Any) -> object:
    match kind:
        case b"hash":
            return flat_to_dict(await node.execute("HGETALL", key))
        case b"zset":
            return await node.execute("ZRANGE", key, 0, -1, "WITHSCORES")
        case b"set":
            return sorted(await node.execute("SMEMBERS", key))
        case b"stream":
            return lines_of(await node.execute("XRANGE", key, "-", "+"))
        case _:
            return await node.execute("GET", key)
