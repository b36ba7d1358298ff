"""New code for old executions: what was paid for is not paid again, and nothing else is in the way."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from types import FunctionType
from typing import Any, NamedTuple

import pytest

from flowfabric import Context, ExecutionFailed, Handle, RetryPolicy, Worker
from flowfabric.core.policy import FixedBackoff
from flowfabric.testing import FabricKit

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

AT_ONCE = RetryPolicy(max_retries=3, backoff=FixedBackoff(delay_ms=0))
Code = Callable[..., Awaitable[Any]]

done: Counter[str] = Counter()


def charge(amount: int) -> str:
    done[f"charge {amount}"] += 1
    return f"paid {amount}"


def refund(amount: int) -> str:
    done[f"refund {amount}"] += 1
    return f"refunded {amount}"


async def before(ctx: Context) -> None:
    await ctx.step("plan", charge, 1)
    await ctx.step("pay", charge, 5)
    await ctx.sleep(1)


async def unchanged(ctx: Context) -> None:
    await ctx.step("plan", charge, 1)
    await ctx.step("pay", charge, 5)


async def renamed(ctx: Context) -> None:
    await ctx.step("plan", charge, 1)
    await ctx.step("pay by card", charge, 5)


async def renamed_to_a_piece(ctx: Context) -> str:
    await ctx.step("plan", charge, 1)
    return f"{await ctx.step('pa', charge, 5)} in all"


async def renamed_with_other_inputs(ctx: Context) -> None:
    await ctx.step("plan", charge, 1)
    await ctx.step("pay by card", charge, 6)


async def renamed_as_was(ctx: Context) -> None:
    await ctx.step("plan", charge, 1)
    await ctx.step("pay by card", charge, 5, was="pay")


async def removed(ctx: Context) -> None:
    await ctx.step("plan", charge, 1)


async def all_removed(ctx: Context) -> None:
    pass


async def replaced(ctx: Context) -> None:
    await ctx.step("plan", charge, 1)
    await ctx.step("give back", refund, 5)


async def replaced_behind_a_wait(ctx: Context) -> None:
    await ctx.step("plan", charge, 1)
    await ctx.wait_for_signal("never")
    await ctx.step("give back", refund, 5)


async def _pay(ctx: Context) -> None:
    await ctx.step("pay by card", charge, 5)


async def renamed_out_of_sight(ctx: Context) -> None:
    await ctx.step("plan", charge, 1)
    await getattr(sys.modules[__name__], "_pa" + "y")(ctx)


async def renamed_with_its_function(ctx: Context) -> None:
    """The function that asked for the step has another name, too, so only the end tells."""
    await ctx.step("plan", charge, 1)
    await ctx.step("pay by card", charge, 5)


async def inserted_wait(ctx: Context) -> None:
    await ctx.step("plan", charge, 1)
    await ctx.sleep(2)
    await ctx.sleep(3)
    await ctx.step("pay", charge, 5)


async def inserted_of_another_kind(ctx: Context) -> None:
    await ctx.step("plan", charge, 1)
    await ctx.step("give back", refund, 2)
    await ctx.step("pay", charge, 5)


async def inserted_of_the_same_kind(ctx: Context) -> None:
    await ctx.step("plan", charge, 1)
    await ctx.step("pay tip", charge, 5)
    await ctx.step("pay", charge, 5)


async def inserted_first(ctx: Context) -> None:
    await ctx.step("greet", charge, 2)
    await ctx.step("plan", charge, 1)
    await ctx.step("pay", charge, 5)


async def inserted_before_made_names(ctx: Context) -> None:
    for name in ("plan", "tip", "pay"):
        await ctx.step(name, charge, {"plan": 1, "pay": 5, "tip": 3}[name])


async def in_another_function(ctx: Context) -> None:
    await ctx.step("tip", charge, 3)
    await unchanged(ctx)


async def beside_each_other(ctx: Context) -> None:
    async def branch(name: str, amount: int, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        await ctx.step(name, charge, amount)

    await asyncio.gather(branch("tip", 3, 0), branch("pay", 5, 9), branch("plan", 1, 4))


class Case(NamedTuple):
    """What the new code does to an execution that has paid 1 and 5."""

    code: Code
    paid: dict[str, int]  # by the new code
    names: tuple[str, ...] = ()  # in the failure; none if it completes


CASES = [
    Case(unchanged, {}),
    Case(renamed, {}, ("pay#0", "pay by card#0")),
    Case(renamed_to_a_piece, {}, ("pay#0", "pa#0")),
    Case(renamed_with_other_inputs, {}, ("pay#0", "pay by card#0")),
    Case(renamed_as_was, {}),
    Case(removed, {}, ("pay#0",)),
    Case(all_removed, {}, ("plan#0", "pay#0")),
    Case(replaced, {}, ("pay#0", "give back#0")),
    Case(replaced_behind_a_wait, {}, ("pay#0",)),
    Case(renamed_out_of_sight, {}, ("pay#0", "pay by card#0")),
    Case(renamed_with_its_function, {"charge 5": 1}, ("pay#0", "pay by card#0")),
    Case(inserted_of_another_kind, {"refund 2": 1}),
    Case(inserted_of_the_same_kind, {"charge 5": 1}),
    Case(inserted_first, {"charge 2": 1}),
    Case(inserted_wait, {}),
    Case(inserted_before_made_names, {"charge 3": 1}),
    Case(in_another_function, {"charge 3": 1}),
    Case(beside_each_other, {"charge 3": 1}),
]


async def waiting(kit: FabricKit) -> Handle[Any]:
    done.clear()
    old = Worker(worker_instance_id="old")
    old.task(name="publish")(version(before))
    handle = await kit.submit("publish")
    await kit.run_until_idle(old)
    assert done == {"charge 1": 1, "charge 5": 1}
    done.clear()
    return handle


def deployed(code: Code, name: str = "new", **options: Any) -> Worker:
    worker = Worker(worker_instance_id=name)
    worker.task(name="publish", retry=AT_ONCE, **options)(version(code))
    return worker


def version(code: Any) -> Code:
    """One more version of the same function."""
    name = "other" if code is renamed_with_its_function else "publish"
    made = FunctionType(code.__code__.replace(co_qualname=name, co_name=name), globals(), name)
    made.__annotations__, made.__module__ = code.__annotations__, code.__module__
    return made


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code.__name__)
async def test_by_default_nothing_is_paid_again_in_silence(fabric_kit: FabricKit, case: Case) -> None:
    handle = await waiting(fabric_kit)
    await fabric_kit.sleep_through(handle)
    worker = deployed(case.code)
    await fabric_kit.run_until_idle(worker)
    if case.code is inserted_wait:
        await fabric_kit.sleep_through(handle)
        await fabric_kit.run_until_idle(worker)
    assert done == case.paid
    state = await handle.describe()
    assert state.public_state == ("failed" if case.names else "completed"), state.failure_reason
    for name in case.names:
        assert name in (state.failure_reason or "")
    if case.names:
        assert state.failure_category == "step_changed"
        assert "was='" in (state.failure_reason or "")
        assert "changed_steps='keep'" in (state.failure_reason or "")


@pytest.mark.parametrize("case", [case for case in CASES if case.names], ids=lambda case: case.code.__name__)
async def test_after_the_code_is_mended_a_retry_continues(fabric_kit: FabricKit, case: Case) -> None:
    handle = await waiting(fabric_kit)
    await fabric_kit.sleep_through(handle)
    await fabric_kit.run_until_idle(deployed(case.code))
    done.clear()
    await handle.retry()
    await fabric_kit.run_until_idle(deployed(unchanged, "mended"))
    if case.code is renamed_with_its_function:  # it ran before the end told of it, and is left over itself now
        with pytest.raises(ExecutionFailed, match="pay by card#0"):
            await handle
    else:
        await handle
    assert done == {}


@pytest.mark.parametrize("case", [case for case in CASES if case.names], ids=lambda case: case.code.__name__)
async def test_a_task_may_leave_recorded_steps_behind(fabric_kit: FabricKit, case: Case) -> None:
    handle = await waiting(fabric_kit)
    await fabric_kit.sleep_through(handle)
    await fabric_kit.run_until_idle(deployed(case.code, changed_steps="keep"))
    waits = case.code is replaced_behind_a_wait
    assert (await handle.describe()).public_state == ("suspended" if waits else "completed")


async def test_an_execution_may_leave_recorded_steps_behind(fabric_kit: FabricKit) -> None:
    handle = await waiting(fabric_kit)
    await fabric_kit.sleep_through(handle)
    await fabric_kit.run_until_idle(deployed(removed))
    await handle.change(tags={"flowfabric.changed_steps": "keep"})
    await handle.retry()
    await fabric_kit.run_until_idle(deployed(removed, "again"))
    assert (await handle.describe()).public_state == "completed"


async def test_another_way_after_a_failed_step_is_no_change_of_the_code(fabric_kit: FabricKit) -> None:
    """The first attempt took a way around a failure; the second one does not need it."""
    worker = Worker(worker_instance_id="worker-1")
    tries: list[str] = []

    def flaky() -> str:
        tries.append("flaky")
        if len(tries) == 1:
            raise OSError("down")
        return "ok"

    @worker.task(retry=AT_ONCE)
    async def handler(ctx: Context) -> str:
        try:
            said = await ctx.step("first choice", flaky)
        except OSError:
            said = await ctx.step("second choice", charge, 7)
        if len(tries) == 1:
            raise RuntimeError("later")
        return said

    handle = await fabric_kit.submit(handler)
    await fabric_kit.run_until_idle(worker)
    assert await handle == "ok"


async def test_another_way_after_a_step_that_took_too_long_is_no_change_of_the_code(fabric_kit: FabricKit) -> None:
    worker = Worker(worker_instance_id="worker-1")
    tries: list[str] = []

    async def slow() -> str:
        tries.append("slow")
        if len(tries) == 1:
            await asyncio.Event().wait()
        return "ok"

    @worker.task(retry=AT_ONCE)
    async def handler(ctx: Context) -> str:
        try:
            async with asyncio.timeout(0.01 if not tries else None):
                said = await ctx.step("slow", slow)
        except TimeoutError:
            said = await ctx.step("quick", charge, 7)
        if len(tries) == 1:
            raise RuntimeError("later")
        return said

    handle = await fabric_kit.submit(handler)
    await fabric_kit.run_until_idle(worker)
    assert await handle == "ok"
