"""Streams of events: frames, executions, flows, lanes and namespaces; resumed, shared, and ended with the server."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from flowfabric import Context, Fabric, RetryPolicy, Worker
from flowfabric.core.policy import FixedBackoff
from flowfabric.server.feeds.event_sources import ExecutionEvents
from flowfabric.server.http.listener import listening
from flowfabric.server.settings import ServerSettings
from flowfabric.testing import FabricKit
from tests.server.serving import Listener, Served, serving
from tests.servers import eventually_async

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

ONE_RETRY = RetryPolicy(max_retries=1, backoff=FixedBackoff(delay_ms=0))
UNKNOWN = "{fp:0}:00000000-0000-4000-8000-000000000000"

worker = Worker(lanes=["default", "other"])


@worker.task
async def speak(ctx: Context, words: list[str]) -> int:
    for word in words:
        await ctx.emit(word)
    return len(words)


@worker.task(retry=ONE_RETRY)
async def twice(ctx: Context) -> None:
    await ctx.emit(f"attempt {ctx.attempt_index}")
    if ctx.attempt_index == 0:
        raise OSError("no route")


@worker.task(retry=0)
async def two_parts(ctx: Context) -> None:
    await ctx.step("first", say, ctx, "first")
    await ctx.wait_for_signal("go")
    await ctx.emit({"part": 2})
    await ctx.emit(b"\xff")


async def say(ctx: Context, word: str) -> None:
    await ctx.emit(word)


@worker.task
async def double(number: int) -> int:
    return 2 * number


def stream_of(execution_id: str) -> str:
    return f"/v1/executions/{execution_id}/stream"


def values(listener: Listener) -> list[Any]:
    return [each.data.get("value", each.data.get("base64")) for each in listener.seen if each.kind == "frame"]


class TestFrames:
    async def test_come_as_they_are_emitted_and_the_end_says_how_it_ended(self, fabric_kit: FabricKit) -> None:
        async with serving(fabric_kit.backend) as server:
            handle = await fabric_kit.submit(two_parts)
            async with server.listen(stream_of(handle.id)) as listener:
                await fabric_kit.run_until_idle(worker)
                (first,) = await listener.until("frame")
                assert first.data["value"] == "first"
                assert first.data["attempt_index"] == 0
                await handle.signal("go")
                await fabric_kit.run_until_idle(worker)
                *_, end = await listener.rest()
                assert values(listener) == ["first", {"part": 2}, "/w=="]
                assert (end.kind, end.data["public_state"]) == ("end", "completed")

    async def test_go_on_behind_the_last_one_seen_on_another_server(self, fabric_kit: FabricKit) -> None:
        said = [f"w{at}" for at in range(50)]
        handle = await fabric_kit.submit(speak, said)
        await fabric_kit.run_until_idle(worker)
        async with serving(fabric_kit.backend) as server, server.listen(stream_of(handle.id)) as listener:
            for _ in range(20):
                last = await listener.next()
        assert last is not None
        async with serving(fabric_kit.backend) as another, another.listen(stream_of(handle.id), after=last.id) as rest:
            await rest.rest()
        assert values(listener) + values(rest) == said

    async def test_of_an_attempt_that_failed_are_voided_by_a_reset(self, fabric_kit: FabricKit) -> None:
        async with serving(fabric_kit.backend) as server:
            handle = await fabric_kit.submit(twice)
            async with server.listen(stream_of(handle.id)) as listener:
                await fabric_kit.run_until_idle(worker)
                kinds = [each.kind for each in await listener.rest()]
            assert kinds == ["frame", "reset", "frame", "end"]
            async with server.listen(stream_of(handle.id), after=listener.seen[0].id) as again:
                assert [each.kind for each in await again.rest()] == ["reset", "frame", "end"]
            async with server.listen(stream_of(handle.id), attempts="all") as every:
                assert [each.kind for each in await every.rest()] == ["frame", "frame", "end"]

    @pytest.mark.parametrize(
        ("query", "status"),
        [({"after": "soon"}, 422), ({"attempts": "some"}, 422), ({"livley": "1"}, 422), ({}, 404)],
    )
    async def test_that_cannot_be_read_are_refused_before_the_stream(
        self, fabric_kit: FabricKit, query: dict[str, str], status: int
    ) -> None:
        handle = await fabric_kit.submit(speak, [])
        async with serving(fabric_kit.backend) as server:
            answer = await server.http.get(stream_of(handle.id if query else UNKNOWN), params=query)
            assert answer.status_code == status, answer.text


class TestExecutionEvents:
    async def test_begin_with_its_creation_and_end_with_its_end(self, fabric_kit: FabricKit) -> None:
        async with serving(fabric_kit.backend) as server:
            handle = await fabric_kit.submit(double, 2)
            async with server.listen(f"/v1/executions/{handle.id}/events") as listener:
                await fabric_kit.run_until_idle(worker)
                await listener.rest()
            assert [each.data["event"] for each in listener.seen[:-1]] == ["created", "claimed", "completed"]
            assert listener.seen[-1].data["public_state"] == "completed"
            async with server.listen(f"/v1/executions/{handle.id}/events", after=listener.seen[1].id) as again:
                assert [each.data.get("event") for each in await again.rest()] == ["completed", None]

    async def test_of_an_unknown_one_are_not_found(self, fabric_kit: FabricKit) -> None:
        async with serving(fabric_kit.backend) as server:
            assert (await server.http.get(f"/v1/executions/{UNKNOWN}/events")).status_code == 404

    async def test_that_many_follow_are_read_from_the_store_once(
        self, fabric_kit: FabricKit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        places: list[str | None] = []
        tail = ExecutionEvents.tail

        def counted(self: ExecutionEvents, place: str | None) -> Any:
            places.append(place)
            return tail(self, place)

        monkeypatch.setattr(ExecutionEvents, "tail", counted)
        async with serving(fabric_kit.backend) as server, AsyncExitStack() as stack:
            handle = await fabric_kit.submit(two_parts)
            path = f"/v1/executions/{handle.id}/events"
            listeners = [await stack.enter_async_context(server.listen(path)) for _ in range(20)]
            for each in listeners:
                await each.until("event")
            await fabric_kit.run_until_idle(worker)
            await handle.signal("go")
            await fabric_kit.run_until_idle(worker)
            seen = [[event.data.get("event") for event in await each.rest()] for each in listeners]
            assert seen[0][-2:] == ["completed", None]
            assert all(each == seen[0] for each in seen)
            assert len(places) == 1


class TestFlowEvents:
    async def test_tell_how_its_members_go_and_how_it_ended(self, fabric_kit: FabricKit) -> None:
        async with serving(fabric_kit.backend) as server:
            async with fabric_kit.flow("sum") as flow:
                first = flow.add(double, 2)
                flow.add(double, first)
            async with server.listen(f"/v1/flows/{flow.id}/events") as listener:
                await fabric_kit.run_until_idle(worker)
                state, *events, end = await listener.rest()
            assert state.data["public_flow_state"] in ("open", "running")
            assert [each.data["event"] for each in events].count("completed") == 2
            assert end.data["public_flow_state"] == "completed"
            async with server.listen(f"/v1/flows/{flow.id}/events", after=events[-2].id) as again:
                assert [each.kind for each in await again.rest()] == ["state", "event", "end"]

    async def test_reach_a_flow_handle_on_the_address_of_a_server(self, fabric_kit: FabricKit) -> None:
        async with serving(fabric_kit.backend) as server, Fabric.connect(server.url) as fabric:
            async with fabric_kit.flow("one") as flow:
                flow.add(double, 2)
            await fabric_kit.run_until_idle(worker)
            found = [event.event async for event in fabric.flow_handle(flow.id).events()]
            assert found == ["created", "claimed", "completed", "flow_completed"]


class TestLogEvents:
    async def test_of_a_lane_are_those_of_its_executions(self, fabric_kit: FabricKit) -> None:
        async with (
            serving(fabric_kit.backend) as server,
            server.listen("/v1/events/stream", lane_id="other") as of_lane,
            server.listen("/v1/events/stream", events='["completed"]') as of_all,
        ):
            await of_lane.until("ready")
            await of_all.until("ready")
            here = await fabric_kit.submit(double, 1)
            there = await fabric_kit.submit(double.with_options(lane="other"), 1)
            await fabric_kit.run_until_idle(worker)
            assert [(await of_lane.next()).data["event"] for _ in range(3)] == ["created", "claimed", "completed"]  # type: ignore[union-attr]
            assert {each.data["execution_id"] for each in of_lane.seen[1:]} == {there.id.short}
            ended = {(await of_all.next()).data["execution_id"] for _ in range(2)}  # type: ignore[union-attr]
            assert ended == {here.id.short, there.id.short}

    async def test_go_on_where_they_were_left(self, fabric_kit: FabricKit) -> None:
        async with serving(fabric_kit.backend) as server:
            async with server.listen("/v1/events/stream") as listener:
                (ready,) = await listener.until("ready")
            handle = await fabric_kit.submit(double, 1)
            await fabric_kit.run_until_idle(worker)
            async with server.listen("/v1/events/stream", after=ready.id) as again:
                await again.until("ready")
                found = [await again.next() for _ in range(3)]
                assert [each.data["execution_id"] for each in found if each] == [handle.id.short] * 3
                assert found[-1] is not None
                assert found[-1].id
            async with server.listen("/v1/events/stream", after=found[-1].id) as rest:
                await rest.until("ready")
                other = await fabric_kit.submit(double, 1)
                assert (await rest.until("event"))[0].data["execution_id"] == other.id.short


class TestAQuietStream:
    async def test_says_that_it_is_alive(self, fabric_kit: FabricKit) -> None:
        async with serving(fabric_kit.backend, keep_alive_ms=100) as server:
            handle = await fabric_kit.submit(two_parts)
            async with server.listen(stream_of(handle.id)) as listener:
                reading = asyncio.create_task(listener.next())
                await eventually_async(lambda: listener.alive >= 2)
                reading.cancel()

    async def test_ends_with_its_server(self, fabric_kit: FabricKit) -> None:
        handle = await fabric_kit.submit(two_parts)
        async with AsyncExitStack() as stack, AsyncExitStack() as of_server:
            url = await of_server.enter_async_context(listening(fabric_kit.backend, ServerSettings(port=0)))
            server = Served(await stack.enter_async_context(httpx.AsyncClient(base_url=url)), url)
            paths = (stream_of(handle.id), f"/v1/executions/{handle.id}/events", "/v1/events/stream")
            listeners = [await stack.enter_async_context(server.listen(path)) for path in paths]
            for each in listeners[1:]:
                await each.next()
            readings = [asyncio.create_task(each.rest()) for each in listeners]
            closing = asyncio.create_task(of_server.aclose())
            assert [await each for each in readings] == [[], [], []]
            await stack.aclose()
            await closing

    async def test_is_refused_when_there_are_too_many(self, fabric_kit: FabricKit) -> None:
        handle = await fabric_kit.submit(two_parts)
        async with (
            serving(fabric_kit.backend, sse_clients=1) as server,
            server.listen("/v1/events/stream") as listener,
        ):
            await listener.next()
            answer = await server.http.get(stream_of(handle.id))
            assert (answer.status_code, answer.json()["code"]) == (429, "tail_limit_exceeded")

    async def test_that_nobody_reads_any_more_leaves_nothing_behind(self, fabric_kit: FabricKit) -> None:
        handle = await fabric_kit.submit(two_parts)
        async with listening(fabric_kit.backend, ServerSettings(port=0)) as url:
            before = len(asyncio.all_tasks())
            async with httpx.AsyncClient(base_url=url) as http:
                server = Served(http, url)
                async with server.listen("/v1/events/stream") as first, server.listen(stream_of(handle.id)):
                    await first.next()
                    assert len(asyncio.all_tasks()) > before
            await eventually_async(lambda: len(asyncio.all_tasks()) <= before)


async def test_records_come_as_a_page_and_as_a_stream(fabric_kit: FabricKit) -> None:
    worker, may_end = Worker(), asyncio.Event()

    @worker.task
    async def work(ctx: Context) -> None:
        ctx.log.info("one")
        await may_end.wait()
        ctx.log.warning("two")

    async with serving(fabric_kit.backend) as server, worker.working(fabric_kit.backend):
        handle = await fabric_kit.submit(work)
        path = f"/v1/executions/{handle.id}/logs"
        async with server.listen(f"{path}/stream") as listener:
            (first,) = await listener.until("record")
            may_end.set()
            *_, second, end = await listener.rest()
        assert (first.data["message"], first.data["level"], first.data["attempt_index"]) == ("one", 20, 0)
        assert second.data["message"] == "two"
        assert (end.kind, end.data["public_state"]) == ("end", "completed")
        async with server.listen(f"{path}/stream", after=first.id) as again:
            assert [each.kind for each in await again.rest()] == ["record", "end"]
        async with server.listen(f"{path}/stream", level="warning") as loud:
            assert [each.data["message"] for each in await loud.until("record")] == ["two"]
        page = (await server.http.get(path, params={"min_level": 30})).json()
        assert [each["message"] for each in page["records"]] == ["two"]


@pytest.mark.parametrize(
    ("query", "status"), [({"after": "soon"}, 422), ({"level": "loud"}, 422), ({"livley": "1"}, 422), ({}, 404)]
)
async def test_wrong_requests_are_refused_before_the_stream_begins(
    fabric_kit: FabricKit, query: dict[str, str], status: int
) -> None:
    async with serving(fabric_kit.backend) as server:
        found = await server.http.get(f"/v1/executions/{UNKNOWN}/logs/stream", params=query)
        assert found.status_code == status


async def test_a_client_over_http_reads_logs_as_any_other(fabric_kit: FabricKit) -> None:
    worker = Worker()

    @worker.task
    async def work(ctx: Context) -> None:
        ctx.log.info("one")

    handle = await fabric_kit.submit(work)
    await fabric_kit.run_until_idle(worker)
    async with serving(fabric_kit.backend) as server, Fabric.connect(server.url) as remote:
        assert [each.message async for each in remote.handle(handle.id).logs(follow=True)] == ["one"]
