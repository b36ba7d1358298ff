"""Many streams of one caller: one reader of the store, filters in the process, and a share for everybody else."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from flowfabric import Context, Worker
from flowfabric.backends.http.operations import Scope
from flowfabric.core import contracts as c
from flowfabric.core.contracts.events import END
from flowfabric.core.ids import FlowId, LaneId, Namespace
from flowfabric.server.app import create_app
from flowfabric.server.feeds.event_sources import LogSource
from flowfabric.server.feeds.filters import Filters, facts_of
from flowfabric.server.settings import ServerSettings
from flowfabric.testing import FabricKit
from tests.server.guarded import TokenFile
from tests.server.serving import Served, serving
from tests.servers import eventually_async

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

STREAM = "/v1/events/stream"
MANY = 300

worker = Worker(lanes=["default", "other"])


@worker.task
async def double(number: int) -> int:
    return 2 * number


@worker.task(retry=0)
async def hold(ctx: Context) -> None:
    await ctx.wait_for_signal("go")


class Reads:
    """The reads of the event logs that a backend was asked for."""

    def __init__(self, kit: FabricKit, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[c.ReadEventsArgs] = []
        self.at_once = self.most_at_once = 0
        read = kit.backend.read_events

        async def noted(args: c.ReadEventsArgs) -> c.EventPage:
            self.seen.append(args)
            return await read(args)

        monkeypatch.setattr(kit.backend, "read_events", noted)


@pytest.fixture
def reads(fabric_kit: FabricKit, monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(fabric_kit, monkeypatch)


class TestManyFilters:
    async def test_are_served_by_one_reader_of_the_store(self, fabric_kit: FabricKit, reads: Reads) -> None:
        async with serving(fabric_kit.backend) as server, AsyncExitStack() as stack:
            lanes = [f"lane-{at}" for at in range(MANY - 1)] + ["other"]
            listeners = [
                await stack.enter_async_context(server.listen(STREAM, lane_id=lane, events='["created"]'))
                for lane in lanes
            ]
            for each in listeners:
                await each.until("ready")
            handle = await fabric_kit.submit(double.with_options(lane="other"), 1)
            (event,) = await listeners[-1].until("event")
            assert event.data["execution_id"] == handle.id.short
            assert [args.cursor for args in reads.seen].count(END) == 1
            rest = [args for args in reads.seen if args.cursor != END]
            assert {(args.lane_id, args.events, args.owners) for args in rest} == {(None, (), True)}
            places = [args.cursor for args in rest]
            assert len(set(places)) <= 2  # where it began, and behind the event

    async def test_let_through_what_the_store_would(self, fabric_kit: FabricKit) -> None:
        backend = fabric_kit.backend
        begin = (await backend.read_events(c.ReadEventsArgs(cursor=END))).cursor
        handle = await happen(fabric_kit)
        page = await backend.read_events(c.ReadEventsArgs(cursor=begin, limit=1_000, owners=True))
        assert not page.more
        for wanted in filters(page, handle):
            found: Filters[str] = Filters()
            found.add(wanted, "me")
            passed = [
                event for event, owner in zip(page.events, page.owners, strict=True)
                if list(found.matching(facts_of(event, owner)))
            ]  # fmt: skip
            by_store = await backend.read_events(replace(wanted, cursor=begin, limit=1_000))
            assert passed == list(by_store.events), wanted
            found.remove(wanted, "me")
            assert not any(list(found.matching(facts_of(*each))) for each in zip(page.events, page.owners, strict=True))

    async def test_of_flows_are_served_by_the_same_reader(self, fabric_kit: FabricKit, reads: Reads) -> None:
        async with serving(fabric_kit.backend) as server, AsyncExitStack() as stack:
            listeners = []
            for _ in range(10):
                async with fabric_kit.flow("one") as flow:
                    flow.add(double, 2)
                listeners.append(await stack.enter_async_context(server.listen(f"/v1/flows/{flow.id}/events")))
            for each in listeners:
                await each.until("event")
            reads.seen.clear()
            await fabric_kit.run_until_idle(worker)
            ended = [(await each.until("end"))[-1].data["public_flow_state"] for each in listeners]
            assert ended == ["completed"] * 10
            assert all(args.owners for args in reads.seen if args.flow_id is None)
            assert len([args for args in reads.seen if args.flow_id]) <= 2 * 10  # who was catching up


async def happen(kit: FabricKit) -> Any:
    """Something of every kind: lanes, kinds, namespaces, a flow."""
    handle = await kit.submit(double, 1)
    await kit.submit(double.with_options(lane="other"), 1)
    await kit.submit(hold)
    async with kit.flow("one") as flow:
        flow.add(double, flow.add(double, 2))
    await kit.run_until_idle(worker)
    return handle


def filters(page: c.EventPage, handle: Any) -> list[c.ReadEventsArgs]:
    flows = {owner.flow_id for owner in page.owners if owner.flow_id}
    partitions = {owner.partition for owner in page.owners}
    kinds = {owner.execution_kind for owner in page.owners if owner.execution_kind}
    assert flows
    assert len(kinds) == 2
    partition = partitions.pop()
    plain: list[dict[str, Any]] = [
        {}, {"lane_id": LaneId("other")}, {"lane_id": LaneId("nowhere")}, {"namespace": Namespace("default")},
        {"namespace": Namespace("theirs")}, {"execution_id": handle.id}, {"flow_id": FlowId(flows.pop())},
        {"execution_kind": next(iter(kinds))}, {"execution_kind": "none"},
        {"lane_id": LaneId("default"), "namespace": Namespace("default")},
        {"partition": partition},
    ]  # fmt: skip
    some: list[dict[str, Any]] = [{}, {"events": ("created", "completed")}, {"events": ("flow_completed",)}]
    return [c.ReadEventsArgs(**each, **more) for each in plain for more in some]


class TestShares:
    async def test_one_token_at_its_cap_leaves_the_others_theirs(self, fabric_kit: FabricKit, tmp_path: Path) -> None:
        tokens = TokenFile(tmp_path / "tokens.json")
        for name in ("greedy", "other"):
            tokens.add(name, [Scope.READ])
        async with (
            serving(fabric_kit.backend, tokens=str(tokens.path), streams_per_token=20) as server,
            AsyncExitStack() as stack,
        ):
            greedy, other = (Served(server.http, server.url) for _ in range(2))
            server.http.headers.update(tokens.headers("greedy"))
            paths = [f"{STREAM}?lane_id=lane-{at}" for at in range(20)]
            listeners = [await stack.enter_async_context(greedy.listen(path)) for path in paths]
            for each in listeners:
                await each.until("ready")
            refused = await server.http.get(STREAM)
            assert (refused.status_code, refused.json()["code"]) == (429, "tail_limit_exceeded")
            server.http.headers.update(tokens.headers("other"))
            async with other.listen(STREAM) as listener:
                await listener.until("ready")
            assert (await server.http.get("/v1/executions")).status_code == 200

    async def test_calls_that_wait_are_capped_by_token(self, fabric_kit: FabricKit, tmp_path: Path) -> None:
        tokens = TokenFile(tmp_path / "tokens.json")
        for name in ("greedy", "other"):
            tokens.add(name, [Scope.READ, Scope.WORK])
        handle = await fabric_kit.submit(hold)
        path = f"/v1/executions/{handle.id}/wait"
        async with serving(fabric_kit.backend, tokens=str(tokens.path), waits_per_token=5) as server:
            ask = server.http.get
            waiting = [
                asyncio.create_task(ask(path, params={"timeout_ms": 30_000}, headers=tokens.headers("greedy")))
                for _ in range(6)
            ]
            done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            (refused,) = [each.result() for each in done]
            assert (refused.status_code, refused.json()["code"]) == (429, "tail_limit_exceeded")
            claim = {"worker_id": "w", "worker_instance_id": "w-1", "lanes": ["nothing"], "wait_ms": 20_000}
            also = await server.http.post("/v1/work/claim", json=claim, headers=tokens.headers("greedy"))
            assert also.status_code == 429
            answer = await ask(path, params={"timeout_ms": 1}, headers=tokens.headers("other"))
            assert answer.status_code == 200
            await handle.cancel()
            assert [(await each).status_code for each in rest] == [200] * 5
            again = await ask(path, params={"timeout_ms": 1}, headers=tokens.headers("greedy"))
            assert again.status_code == 200

    async def test_readers_that_catch_up_take_turns(
        self, fabric_kit: FabricKit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begin = (await fabric_kit.backend.read_events(c.ReadEventsArgs(cursor=END))).cursor
        handle = await happen(fabric_kit)
        now = most = 0
        are_two, read = asyncio.Event(), LogSource.read

        async def counted(self: LogSource, place: str | None) -> Any:
            nonlocal now, most
            now += 1
            most = max(most, now)
            if most > 1:
                are_two.set()
            try:
                await are_two.wait()  # the others come meanwhile
                return await read(self, place)
            finally:
                now -= 1

        monkeypatch.setattr(LogSource, "read", counted)
        async with serving(fabric_kit.backend) as server, AsyncExitStack() as stack:
            listeners = [
                await stack.enter_async_context(
                    server.listen(STREAM, after=begin, execution_id=handle.id, events=json.dumps([kind]))
                )
                for kind in [*c.EventKind][:20]
            ]
            await listeners[0].until("event")
            async with asyncio.timeout(20):
                await asyncio.gather(*(each.until("ready") for each in listeners[1:]))
        assert most == 2


class TestAClientThatTakesNothing:
    async def test_is_cut_off_and_can_come_back_where_it_was(self, fabric_kit: FabricKit) -> None:
        app = create_app(fabric_kit.backend, ServerSettings(keep_alive_ms=100))
        handle = await fabric_kit.submit(hold)
        taken: list[bytes] = []
        is_full = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            """Takes the first event, and nothing after it."""
            if message["type"] == "http.response.body":
                if any(b"event: event" in each for each in taken):
                    is_full.set()
                    await asyncio.Event().wait()
                taken.append(message["body"])

        scope = {
            "type": "http", "method": "GET", "path": f"/v1/executions/{handle.id}/events", "query_string": b"",
            "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1), "scheme": "http",
            "server": ("localhost", 80), "http_version": "1.1", "asgi": {"version": "3.0"},
        }  # fmt: skip
        async with asyncio.timeout(20):
            answering = asyncio.create_task(app(scope, receive, send))  # type: ignore[arg-type]
            await eventually_async(lambda: len(taken) >= 2)
            await fabric_kit.run_until_idle(worker)
            await is_full.wait()
            await answering
        assert not app.state.service.streams
        last = [line for line in b"".join(taken).decode().splitlines() if line.startswith("id: ")][-1]
        async with serving(fabric_kit.backend) as server:
            path = f"/v1/executions/{handle.id}/events"
            async with server.listen(path, after=last.removeprefix("id: ")) as listener:
                assert (await listener.until("event"))[0].data["event"] == "claimed"
