"""Leaving alone what fails, for longer and longer."""

from __future__ import annotations

import asyncio

from flowfabric.engine.backoff import Backoff, SetAside
from flowfabric.engine.slots import Slots
from flowfabric.errors import BackendUnavailable, ScriptFault
from tests.engine_fakes import settle

BACKOFF = Backoff(1_000, 60_000)


def test_waits_double_up_to_a_bound() -> None:
    assert [BACKOFF.after(failures) for failures in range(1, 9)] == [
        1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000,
    ]  # fmt: skip
    assert BACKOFF.after(10**9) == 60_000


def test_a_store_that_cannot_be_reached_is_tried_again_soon() -> None:
    assert [BACKOFF.after(failures, BackendUnavailable()) for failures in (1, 2, 3, 50)] == [1_000, 2_000, 2_000, 2_000]


def test_what_failed_is_left_alone_until_its_time_and_forgotten_when_it_works() -> None:
    aside = SetAside(BACKOFF)
    aside.failed("a", ScriptFault("broken"), now_ms=0)
    assert (aside.holds("a", 999), aside.holds("a", 1_000), aside.holds("b", 0)) == (True, False, False)
    aside.failed("a", ScriptFault("broken"), now_ms=1_000)
    assert (aside.until_ms("a"), len(aside)) == (3_000, 1)
    aside.worked("a")
    assert (aside.until_ms("a"), len(aside)) == (0, 0)
    aside.failed("a", ScriptFault("broken"), now_ms=5_000)
    assert aside.until_ms("a") == 6_000


def test_the_worst_are_shown_first_and_not_all_of_many() -> None:
    aside = SetAside(BACKOFF)
    for number in range(500):
        aside.failed(f"{number}", ValueError("odd"), now_ms=0)
    aside.failed("7", ScriptFault("broken"), now_ms=0)
    shown = aside.shown(now_ms=500)
    assert (len(aside), len(shown)) == (500, 100)
    assert (shown[0].what, shown[0].failures, shown[0].retry_in_ms) == ("7", 2, 1_500)
    assert (shown[0].error, shown[1].error) == ("script_fault: broken", "ValueError: odd")
    aside.keep_only(frozenset({"8", "9"}))
    assert len(aside) == 2


async def test_so_many_hold_slots_at_once_and_the_others_take_turns() -> None:
    slots, order, gate = Slots(2), list[int](), asyncio.Event()

    async def hold(number: int) -> None:
        async with slots.one():
            order.append(number)
            await gate.wait()

    tasks = [asyncio.create_task(hold(number)) for number in range(5)]
    await settle()
    assert order == [0, 1]
    gate.set()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4]


async def test_a_call_that_never_returns_gives_its_slot_back_once() -> None:
    slots, gate = Slots(1), asyncio.Event()

    async def hang() -> None:
        async with slots.one():
            await gate.wait()

    stuck = [asyncio.create_task(hang()) for _ in range(2)]
    await settle()
    async with asyncio.timeout(20), slots.one():
        gate.set()
        await asyncio.gather(*stuck)
        waiting = asyncio.create_task(hang())
        await settle()
        assert not waiting.done()  # the slot of this body was not given twice
    await waiting
