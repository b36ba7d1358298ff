"""Whoever holds a link can say what is asked for, and fill nothing."""

from __future__ import annotations

from typing import Any

from flowfabric import Context, Count, CountKind, Worker
from flowfabric.testing import FabricKit
from tests.server.serving import serving
from tests.server.test_approval_page import opened, path_of

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

worker = Worker()
PAYLOAD = '"' + "x" * 250_000 + '"'


@worker.task(retry=0)
async def ask(ctx: Context) -> Any:
    return (await ctx.wait_for_signal("decision")).payload


@worker.task(retry=0)
async def prepare(ctx: Context) -> None:
    await ctx.waitpoint("early")
    await ctx.wait_for_signal("never")


@worker.task(retry=0)
async def gather(ctx: Context) -> int:
    return len(await ctx.wait_for(Count(900, CountKind.DISTINCT_SIGNALS, ("all",))))


def named(link: str, name: str) -> str:
    return f"{link.partition('&name=')[0]}&name={name}"


async def test_a_name_that_nobody_waits_for_is_refused_and_not_stored(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(ask)
    await fabric_kit.run_until_idle(worker)
    async with serving(fabric_kit.backend) as server:
        link = path_of(await handle.link())
        for at in range(20):
            answer = await server.http.post(named(link, f"spam-{at}"), content=PAYLOAD)
            assert answer.status_code == 422, answer.text
            assert "decision" in answer.text
        assert "signalled" not in [each.event for each in (await handle.history()).events]
        assert (await server.http.post(named(link, "decision"), content='"yes"')).status_code == 200
        await fabric_kit.run_until_idle(worker)
        assert await handle.result() == "yes"


async def test_a_hundred_big_signals_fill_less_than_a_megabyte(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(gather)
    await fabric_kit.run_until_idle(worker)
    async with serving(fabric_kit.backend) as server:
        link = path_of(await handle.link())
        answers = [await server.http.post(named(link, f"n{at}"), content=PAYLOAD) for at in range(100)]
    refused = [each for each in answers if each.status_code != 200]
    assert len(answers) - len(refused) == 3
    assert {(each.status_code, each.json()["code"]) for each in refused} == {(429, "signal_limit_exceeded")}


async def test_a_link_made_ahead_of_its_wait_is_bounded_too(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(prepare)
    await fabric_kit.run_until_idle(worker)
    async with serving(fabric_kit.backend) as server:
        link = path_of(await handle.link(waitpoint="early"))
        answers = [await server.http.post(named(link, f"n{at}"), content=PAYLOAD) for at in range(20)]
    assert [each.status_code for each in answers] == [200] * 3 + [429] * 17


async def test_a_page_delivers_no_other_name_either(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(ask)
    async with serving(fabric_kit.backend) as server:
        link = await opened(fabric_kit, handle)
        await fabric_kit.run_until_idle(worker)
        link = path_of(await handle.link())
        token = link.partition("token=")[2].replace("%3A", ":")
        form = {"token": token, "name": "other", "json": "1"}
        answer = await server.http.post(link.partition("?")[0], data=form)
        assert answer.status_code in (404, 422)
        assert "signalled" not in [each.event for each in (await handle.history()).events]
