"""Work that a Python client submits and a worker of the Rust line runs, and the other way round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flowfabric import Context, Engine, Fabric, Worker
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.client.failures import ExecutionCancelled, ExecutionFailed
from flowfabric.client.handle import Handle
from flowfabric.core import contracts as c
from flowfabric.core.states import PublicState
from tests.rust_line.conftest import LANE
from tests.rust_line.worker import Keys, Refused, ResumeSignal, Task, fresh
from tests.rust_line.worker import Worker as RustWorker
from tests.servers import eventually, eventually_async

PATIENCE = 30
CALL = {"args": [3], "kwargs": {}}


def claimed(rust: RustWorker) -> Task:
    task = rust.claim_next()
    assert task is not None, "it found nothing to run"
    return task


def create(rust: RustWorker, policy: str = "", **kept: str) -> Keys:
    """Submit as the original's server does."""
    keys = Keys(f"{rust.tags[0]}:{fresh()}", LANE)
    named = [
        keys.of("core"), keys.of("payload"), keys.of("policy"), keys.of("tags"), keys.in_lane("eligible"), keys.noop,
        keys.idx("execution_deadline"), keys.idx("all_executions"),
    ]  # fmt: skip
    rust.call(
        "ff_create_execution", named, keys.id, "default", LANE, "resize", 0, "rust", policy, b'{"args":[3]}', "", "",
        json.dumps(kept) if kept else "", "", 7,
    )  # fmt: skip
    return keys


@pytest.mark.parametrize(("left", "read"), [(b'{"ok":true}', {"ok": True}), (b"done", "done"), (b"", None)])
async def test_it_claims_completes_and_its_result_is_read(
    fabric: Fabric, rust: RustWorker, left: bytes, read: object
) -> None:
    handle = await fabric.submit("resize", 3, lane=LANE, tags={"crew.name": "a"})
    task = claimed(rust)
    assert (task.execution_kind, json.loads(task.payload), task.tags) == ("resize", CALL, {"crew.name": "a"})
    assert (task.index, task.epoch, task.kind_of_attempt) == (0, 1, "initial")
    task.renew()
    task.update_progress(50, "half")
    snapshot = await handle.describe()
    assert (snapshot.progress_pct, snapshot.progress_message) == (50, "half")
    task.complete(left)
    assert await handle.result(timeout=PATIENCE) == read
    assert rust.claim_next() is None


async def test_it_fails_with_the_stored_retry_policy_and_again_for_good(
    fabric: Fabric, rust: RustWorker, backend: ValkeyBackend
) -> None:
    handle = await fabric.submit("resize", lane=LANE, retry=1)
    assert claimed(rust).fail("no memory", "oom") == "retry_scheduled"
    assert await handle.status() is PublicState.DELAYED
    async with Engine(backend):
        await handle_is(handle, PublicState.WAITING, rust)
        again = claimed(rust)
        assert (again.index, again.kind_of_attempt) == (1, "retry")
        assert again.fail("no memory", "oom") == "terminal_failed"
    with pytest.raises(ExecutionFailed, match="no memory"):
        await handle.result(timeout=PATIENCE)


async def handle_is(handle: Handle[Any], state: PublicState, rust: RustWorker) -> None:
    """Wait until it is so; the store is asked past all ports."""
    key = Keys(handle.id, LANE).of("core")
    await eventually_async(lambda: rust.client.hget(key, "public_state") == state.encode(), f"it is {state}")


async def test_a_fence_that_is_stale_is_refused_and_the_recorded_end_is_told(fabric: Fabric, rust: RustWorker) -> None:
    handle = await fabric.submit("resize", lane=LANE)
    task = claimed(rust)
    await handle.cancel("enough")
    with pytest.raises(Refused) as refused:
        task.complete(b"late")
    assert (refused.value.code, refused.value.details[0]) == ("execution_not_active", "cancelled")


async def test_it_cancels_what_it_runs(fabric: Fabric, rust: RustWorker) -> None:
    handle = await fabric.submit("resize", lane=LANE)
    claimed(rust).cancel("not mine")
    with pytest.raises(ExecutionCancelled):
        await handle.result(timeout=PATIENCE)


async def test_it_gives_the_lease_back_until_later_and_resumes(
    fabric: Fabric, rust: RustWorker, backend: ValkeyBackend
) -> None:
    handle = await fabric.submit("resize", lane=LANE)
    claimed(rust).delay(1)
    async with Engine(backend):
        await handle_is(handle, PublicState.WAITING, rust)
    again = claimed(rust)
    assert (again.index, again.epoch, again.kind_of_attempt) == (0, 2, "resumed")
    assert again.resume_signals() == []
    again.complete(b"1")
    assert await handle.result(timeout=PATIENCE) == 1


@pytest.mark.parametrize("names", [(), ("approved",), ("approved", "paid")])
async def test_it_waits_for_signals_and_reads_those_that_ended_the_wait(
    fabric: Fabric, rust: RustWorker, names: tuple[str, ...]
) -> None:
    handle = await fabric.submit("approve", lane=LANE)
    waits = claimed(rust).suspend(*names)
    assert await handle.status() is PublicState.SUSPENDED
    for name in names or ("anything",):
        rust.deliver_signal(handle.id, waits.waitpoint_id, waits.token, name, f'"{name}!"')
    resumed = claimed(rust)
    assert resumed.kind_of_attempt == "resumed"
    expected = [ResumeSignal(name, f'"{name}!"'.encode()) for name in names or ("anything",)]
    assert resumed.resume_signals() == expected
    resumed.complete(b"true")
    assert await handle.result(timeout=PATIENCE) is True


async def test_it_reads_a_signal_that_a_python_client_sent(fabric: Fabric, rust: RustWorker) -> None:
    handle = await fabric.submit("approve", lane=LANE)
    claimed(rust).suspend("approved")
    await handle.signal("approved", {"by": "ada"})
    assert claimed(rust).resume_signals() == [ResumeSignal("approved", b'{"by":"ada"}')]


async def test_it_goes_on_where_a_python_worker_began_to_wait(fabric: Fabric, rust: RustWorker) -> None:
    """The wait of a Python worker has no waitpoint record before somebody asks for one."""
    worker = Worker(lanes=[LANE])

    @worker.task(lane=LANE)
    async def approve(ctx: Context) -> str:
        return str((await ctx.wait_for_signal("approved")).payload)

    async with worker.working(fabric.backend):
        handle = await fabric.submit(approve)
        await handle_is(handle, PublicState.SUSPENDED, rust)
    await handle.signal("approved", 7)
    resumed = claimed(rust)
    assert resumed.resume_signals() == [ResumeSignal("approved", b"7")]
    resumed.complete(b'"done in Rust"')
    assert await handle.result(timeout=PATIENCE) == "done in Rust"


async def test_a_signal_that_a_rust_program_sends_wakes_a_python_worker(
    fabric: Fabric, rust: RustWorker, backend: ValkeyBackend
) -> None:
    worker = Worker(lanes=[LANE])

    @worker.task(lane=LANE)
    async def approve(ctx: Context) -> int:
        return int((await ctx.wait_for_signal("approved")).payload)

    async with worker.working(fabric.backend):
        handle = await fabric.submit(approve)
        await handle_is(handle, PublicState.SUSPENDED, rust)
        (waits,) = (await handle.waitpoints()).entries
        issued = await backend.read_waitpoint_token(
            c.ReadWaitpointTokenArgs(execution_id=handle.id, waitpoint_id=waits.waitpoint_id)
        )
        rust.deliver_signal(handle.id, waits.waitpoint_id, issued.waitpoint_token.reveal(), "approved", "7")
        assert await handle.result(timeout=PATIENCE) == 7


async def test_a_genuine_token_of_an_expired_kid_says_so(fabric: Fabric, rust: RustWorker) -> None:
    handle = await fabric.submit("approve", lane=LANE)
    waits = claimed(rust).suspend("approved")
    secrets = Keys(handle.id, LANE).secrets
    rust.call("ff_rotate_waitpoint_hmac_secret", [secrets], "k2", "cd" * 32, 0)
    eventually(lambda: rust.kids(rust.tags[0]) == ("k2", []), "the grace is over")
    for token, code in ((waits.token, "token_expired"), (waits.token[:-1] + "-", "invalid_token")):
        with pytest.raises(Refused) as refused:
            rust.deliver_signal(handle.id, waits.waitpoint_id, token, "approved")
        assert refused.value.code == code


async def test_kids_are_pairs_with_their_expiry_to_the_end(fabric: Fabric, rust: RustWorker) -> None:
    tag = rust.tags[0]
    assert rust.kids(tag) == ("k1", [])
    rust.call("ff_rotate_waitpoint_hmac_secret", [f"ff:sec:{tag}:waitpoint_hmac"], "k2", "cd" * 32, 60_000)
    current, ((kid, expiry),) = rust.kids(tag)
    assert (current, kid) == ("k2", "k1")
    assert expiry > 0


async def test_it_streams_and_a_plain_reader_sees_frames_alone(fabric: Fabric, rust: RustWorker) -> None:
    handle = await fabric.submit("write", lane=LANE)
    task = claimed(rust)
    first = task.append_frame("token", "once ")
    task.append_frame("token", "upon")
    assert [frame["payload"] for frame in rust.tail(task.keys, 0, "0-0")[0]] == ["once ", "upon"]
    task.complete(b'"done"')
    frames, reason = rust.tail(task.keys, 0, first)
    assert ([frame["payload"] for frame in frames], reason) == (["upon"], "attempt_success")
    assert [item.text async for item in handle.stream()] == ["once ", "upon"]


async def test_a_tail_of_ours_ends_with_an_attempt_of_the_other_line(fabric: Fabric, rust: RustWorker) -> None:
    handle = await fabric.submit("write", lane=LANE)
    task = claimed(rust)
    task.append_frame("token", "once")
    seen = []
    async for item in handle.stream():
        seen.append(item.text)
        if len(seen) == 1:
            task.append_frame("token", "upon")
        else:
            task.complete(b"")
    assert seen == ["once", "upon"]


async def test_a_stream_that_was_closed_by_reclaim_says_reclaimed(fabric: Fabric, rust: RustWorker) -> None:
    await fabric.submit("write", lane=LANE)
    task = claimed(rust)
    task.append_frame("token", "once")
    keys = task.keys
    named = [
        keys.of("core"), keys.of("lease:current"), keys.of("lease:history"), keys.idx("lease_expiry"), rust.leases(keys)
    ]  # fmt: skip
    rust.call("ff_revoke_lease", named, keys.id, "", "operator")
    assert rust.tail(keys, 0, "0-0")[1] == "lease_revoked"
    again = rust.reclaim(keys, 0)
    assert (again.index, again.epoch, again.kind_of_attempt) == (1, 2, "reclaim")
    frames, reason = rust.tail(keys, 0, "0-0")
    assert (len(frames), reason) == (1, "reclaimed")


async def test_every_report_above_a_soft_limit_says_so_and_the_crossing_is_one_event(
    fabric: Fabric, rust: RustWorker
) -> None:
    budget = await fabric.budgets.create({"tokens": 100}, soft={"tokens": 10})
    (key,) = (key.decode() for key in rust.client.keys("ff:budget:*") if key.endswith(str(budget).encode()))
    assert rust.report_usage(key, {"tokens": 10}) == ("OK", [])
    for used, dedup in ((11, ""), (12, "once")):
        word, fields = rust.report_usage(key, {"tokens": 1}, dedup)
        assert (word, fields[:3]) == ("SOFT_BREACH", ["tokens", str(used), "10"])
    assert rust.report_usage(key, {"tokens": 1}, "once")[0] == "ALREADY_APPLIED"
    word, fields = rust.report_usage(key, {"tokens": 100})
    assert (word, fields[:3]) == ("HARD_BREACH", ["tokens", "12", "100"])
    assert (await fabric.budgets.status(budget)).soft_breach_count == 1


@pytest.mark.parametrize("policy", ["", "{}", "null"])
async def test_null_as_a_policy_is_no_policy(fabric: Fabric, rust: RustWorker, policy: str) -> None:
    keys = create(rust, policy)
    task = claimed(rust)
    assert task.keys.id == keys.id
    assert task.fail("no", "no") == "terminal_failed"


async def test_a_floor_of_no_best_effort_frames_is_accepted(fabric: Fabric, rust: RustWorker) -> None:
    await fabric.submit("write", lane=LANE)
    task = claimed(rust)
    keys = task.keys
    named = [keys.of("core"), keys.stream(0), keys.stream(0, ":meta"), keys.attempt(0, ":summary")]
    for at in range(5):
        rust.call(
            "ff_append_frame", named, keys.id, 0, task.lease, task.epoch, "token", "", str(at), "utf8", "", "worker",
            0, task.attempt, 65_536, "best_effort", "", 1, 0, 16_384, "0.2",
        )  # fmt: skip
    assert rust.tail(keys, 0, "0-0")[0][-1]["payload"] == "4", "the newest frame stays"


async def test_a_flow_of_both_lines_passes_results_on(fabric: Fabric, rust: RustWorker) -> None:
    worker = Worker(lanes=["python"])

    @worker.task(lane="python")
    async def join(left: str, right: int) -> str:
        return f"{left}-{right}"

    async with worker.working(fabric.backend):
        async with fabric.flow("mixed") as flow:
            left, right = flow.add("left", lane=LANE), flow.add("right", lane=LANE)
            flow.add(join, left, right)
        rust.tags = [Keys(flow.handle.node(left).id, LANE).tag]
        for _ in range(2):
            task = claimed(rust)
            task.complete(b"plain text" if task.execution_kind == "left" else b"7")
        assert await flow.handle.result(timeout=PATIENCE) == "plain text-7"


async def test_upstream_results_are_read_by_one_function(fabric: Fabric, rust: RustWorker) -> None:
    async with fabric.flow("mixed") as flow:
        left, right = flow.add("left", lane=LANE), flow.add("right", lane=LANE)
        flow.add("join", left, right, lane=LANE)
    rust.tags = [Keys(flow.handle.node(left).id, LANE).tag]
    for _ in range(2):
        task = claimed(rust)
        task.complete(task.execution_kind.encode())
    joins = claimed(rust)
    rows, results = rust.call("ff_read_execution_inputs", [joins.keys.of("core")], joins.keys.id)[1]
    assert [bytes(row[0]).decode() for row in rows] == ["left", "right"]
    assert results == "leftright"
    assert [int(row[4]) for row in rows] == [4, 5]


async def test_the_other_line_reads_our_partition_counts(fabric: Fabric, rust: RustWorker) -> None:
    assert rust.partition_counts() == {
        "num_flow_partitions": 8, "num_budget_partitions": 32, "num_quota_partitions": 32,
    }  # fmt: skip


async def test_python_runs_what_the_other_line_submits(fabric: Fabric, rust: RustWorker) -> None:
    worker = Worker(lanes=[LANE])

    @worker.task(lane=LANE)
    async def resize(width: int) -> int:
        return width * 2

    keys = create(rust, "null", **{"crew.name": "a"})
    async with worker.working(fabric.backend):
        assert await fabric.handle(keys.id).result(timeout=PATIENCE) == 6
    assert rust.client.get(keys.of("result")) == b"6"


def test_the_client_of_these_tests_knows_nothing_of_the_package() -> None:
    source = Path(__file__).with_name("worker.py").read_text()
    assert "import flowfabric" not in source
    assert "from flowfabric" not in source
