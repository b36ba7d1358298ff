"""An answer that came by the plain wire and does not fit: it is rejected, and the wait goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from flowfabric import ByName, Context, Count, CountKind, ExecutionFailed, Handle, SignalTimeout, Worker
from flowfabric.core.ids import ExecutionId, SignalId, WaitpointKey
from flowfabric.errors import InvalidAnswer
from flowfabric.testing import FabricKit

pytest_plugins = ["flowfabric.testing.pytest_plugin"]


@dataclass
class Decision:
    publish: bool
    reason: str = ""


@pytest.fixture
def worker() -> Worker:
    return Worker()


async def waiting(kit: FabricKit, worker: Worker, task: Any, *args: Any) -> Handle[Any]:
    handle: Handle[Any] = await kit.submit(task, *args)
    await kit.run_until_idle(worker)
    return handle


async def by_wire(kit: FabricKit, handle: Handle[Any], name: str, payload: bytes, **more: Any) -> None:
    """As another program calls the function, which compares nothing."""
    given = {"signal_id": SignalId.new(), "signal_name": name, "payload": payload, **more}
    await kit._store._caller.call_execution("signal_execution", ExecutionId(handle.id), **given)  # type: ignore[attr-defined]


async def rejections(handle: Handle[Any]) -> list[str]:
    events = (await handle.history()).events
    return [(each.outcome or "").partition(" ")[2] for each in events if each.event == "signal_rejected"]


async def test_the_wait_goes_on_after_an_answer_that_does_not_fit(fabric_kit: FabricKit, worker: Worker) -> None:
    passes: list[str] = []

    @worker.task(retry=0)
    async def ask(ctx: Context) -> bool:
        passes.append("in")
        return (await ctx.wait_for_signal("decision", type=Decision, timeout=3600)).payload.publish

    handle = await waiting(fabric_kit, worker, ask)
    link = await handle.link("decision")
    (before,) = (await handle.waitpoints()).entries
    for payload in (b'{"publish": "yes"}', b"{}", b"no json", b"[1]"):
        await by_wire(fabric_kit, handle, "decision", payload)
        await fabric_kit.run_until_idle(worker)
        assert await handle.status() == "suspended"
    (after,) = (await handle.waitpoints()).entries
    assert (after.waitpoint_id, after.expires_at) == (before.waitpoint_id, before.expires_at)
    assert await rejections(handle) == [
        "payload.publish: must be true or false (got 'yes')",
        "payload.publish: must be true or false (got nothing)",
        "payload: must be JSON (got something else)",
        "payload: must be an object (got a list)",
    ]
    with pytest.raises(InvalidAnswer):
        await fabric_kit.signal(link, {"publish": "no"})
    await fabric_kit.signal(link, {"publish": True})
    await fabric_kit.run_until_idle(worker)
    assert await handle.result() is True
    assert len(passes) == 6
    assert (await handle.describe()).total_attempt_count == 1


async def test_an_early_answer_that_does_not_fit_is_rejected_when_the_handler_waits(
    fabric_kit: FabricKit, worker: Worker
) -> None:
    links: list[str] = []

    @worker.task(retry=0)
    async def ask(ctx: Context) -> str:
        desk = await ctx.waitpoint("desk")
        links.append(desk.link("decision"))
        await ctx.wait_for_signal("begin")
        return (await ctx.wait_for_signal("decision", type=Decision, at=desk)).payload.reason

    handle = await waiting(fabric_kit, worker, ask)
    await fabric_kit.signal(links[0], "nonsense", idempotency_key="mine")
    await handle.signal("begin")
    await fabric_kit.run_until_idle(worker)
    assert await handle.status() == "suspended"
    assert await rejections(handle) == ["payload: must be an object (got 'nonsense')"]
    with pytest.raises(InvalidAnswer):
        await fabric_kit.signal(links[0], "more nonsense")
    await fabric_kit.signal(links[0], Decision(publish=True, reason="fine"))
    await fabric_kit.run_until_idle(worker)
    assert await handle.result() == "fine"


async def test_only_the_misfits_of_a_condition_are_rejected(fabric_kit: FabricKit, worker: Worker) -> None:
    keys = (WaitpointKey("ada"), WaitpointKey("bob"))

    @worker.task(retry=0)
    async def vote(ctx: Context) -> list[int]:
        votes = await ctx.wait_for(Count(2, CountKind.DISTINCT_WAITPOINTS, keys, ByName("vote")), type=int)
        return [each.payload for each in votes]

    handle = await waiting(fabric_kit, worker, vote)
    await by_wire(fabric_kit, handle, "vote", b"1", waitpoint_key="ada")
    await by_wire(fabric_kit, handle, "vote", b'"two"', waitpoint_key="bob")
    await fabric_kit.run_until_idle(worker)
    assert await rejections(handle) == ["payload: must be a whole number (got 'two')"]
    await handle.signal("vote", 2, waitpoint="bob")
    await fabric_kit.run_until_idle(worker)
    assert await handle.result() == [1, 2]


async def test_a_good_answer_that_was_held_back_counts_at_once(fabric_kit: FabricKit, worker: Worker) -> None:
    keys = (WaitpointKey("ada"), WaitpointKey("bob"))

    @worker.task(retry=0)
    async def vote(ctx: Context) -> list[int]:
        votes = await ctx.wait_for(Count(2, CountKind.DISTINCT_WAITPOINTS, keys, ByName("vote")), type=int)
        return [each.payload for each in votes]

    handle = await waiting(fabric_kit, worker, vote)
    for payload, key in ((b'"one"', "ada"), (b"1", "ada"), (b"2", "bob")):
        await by_wire(fabric_kit, handle, "vote", payload, waitpoint_key=key)
    await fabric_kit.run_until_idle(worker)
    assert await handle.result() == [1, 2]
    assert len(await rejections(handle)) == 1


async def test_the_timeout_of_the_wait_stays_the_same(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task(retry=0)
    async def ask(ctx: Context) -> str:
        try:
            await ctx.wait_for_signal("decision", type=Decision, timeout=100)
        except SignalTimeout:
            return "nobody"
        return "somebody"

    handle = await waiting(fabric_kit, worker, ask)
    await fabric_kit.advance(60)
    await by_wire(fabric_kit, handle, "decision", b"1")
    await fabric_kit.run_until_idle(worker)
    await fabric_kit.advance(30)
    await fabric_kit.run_until_idle(worker)
    assert await handle.status() == "suspended"
    await fabric_kit.advance(11)
    await fabric_kit.run_until_idle(worker)
    assert await handle.result() == "nobody"


async def test_a_worker_that_dies_before_it_rejects_leaves_it_to_the_next(
    fabric_kit: FabricKit, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    reject, calls = fabric_kit.backend.reject_signals, 0

    async def die_first(args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            await fabric_kit.kill_worker(worker)
        return await reject(args)

    @worker.task(retry=0)
    async def ask(ctx: Context) -> bool:
        return (await ctx.wait_for_signal("decision", type=bool)).payload

    monkeypatch.setattr(fabric_kit._store, "reject_signals", die_first)
    handle = await waiting(fabric_kit, worker, ask)
    await by_wire(fabric_kit, handle, "decision", b"1")
    await fabric_kit.run_until_idle(worker)
    await fabric_kit.advance(60)
    await fabric_kit.run_until_idle(worker)
    assert await handle.status() == "suspended"
    assert calls == 2
    assert len(await rejections(handle)) == 1
    await handle.signal("decision", True)
    await fabric_kit.run_until_idle(worker)
    assert await handle.result() is True


async def test_steps_and_later_waits_are_found_again_after_a_rejection(fabric_kit: FabricKit, worker: Worker) -> None:
    done: list[str] = []

    @worker.task(retry=0)
    async def ask(ctx: Context) -> list[int]:
        await ctx.step("first", done.append, "first")
        one = await ctx.wait_for_signal("number", type=int)
        await ctx.step("second", done.append, "second")
        two = await ctx.wait_for_signal("number", type=int)
        return [one.payload, two.payload]

    handle = await waiting(fabric_kit, worker, ask)
    for payload in (b'"a"', b"1", b'"b"', b'"c"', b"2"):
        await by_wire(fabric_kit, handle, "number", payload)
        await fabric_kit.run_until_idle(worker)
    assert await handle.result() == [1, 2]
    assert done == ["first", "second"]
    assert len(await rejections(handle)) == 3


async def test_a_type_that_no_answer_can_have_is_refused_before_the_wait(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task(retry=0)
    async def ask(ctx: Context) -> None:
        await ctx.wait_for_signal("decision", type=dict[int, str] | dict[str, int])

    handle = await waiting(fabric_kit, worker, ask)
    with pytest.raises(ExecutionFailed, match="cannot be the type of a payload"):
        await handle.result()


async def test_a_declared_type_costs_the_wait_no_call(
    fabric_kit: FabricKit, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The form travels in the call that suspends; nothing is recorded beside it."""
    store = fabric_kit._store
    record = store.record_step
    recorded: list[str] = []

    async def noted(args: Any) -> Any:
        recorded.append(args.step.name)
        return await record(args)

    @worker.task(retry=0)
    async def ask(ctx: Context) -> bool:
        return (await ctx.wait_for_signal("decision", type=Decision, question="May I?")).payload.publish

    monkeypatch.setattr(store, "record_step", noted)
    handle = await waiting(fabric_kit, worker, ask)
    form = (await handle.waitpoints()).form
    assert form is not None
    assert form.question == "May I?"
    assert form.schema is not None
    assert recorded == []
