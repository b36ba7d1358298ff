"""Every door refuses an answer that does not fit the declared type: 422, the field, and nothing changes."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from flowfabric import Context, Fabric, Handle, Worker
from flowfabric.backends.http.operations import PREFIX
from flowfabric.core import contracts as c
from flowfabric.core.ids import SignalId
from flowfabric.core.links import SignalLink
from flowfabric.errors import InvalidAnswer
from flowfabric.testing import FabricKit
from tests.server.raw import Answer, ask
from tests.server.serving import Served, serving

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

worker = Worker()
BAD, GOOD = b'{"publish": "yes"}', b'{"publish": true}'


@dataclass
class Decision:
    publish: bool
    reason: str = ""


@worker.task(retry=0)
async def publish(ctx: Context) -> bool:
    return (await ctx.wait_for_signal("decision", type=Decision)).payload.publish


async def waiting(kit: FabricKit) -> Handle[bool]:
    handle = await kit.submit(publish)
    await kit.run_until_idle(worker)
    return handle


Door = Callable[[Served, Handle[Any], bytes], Awaitable[httpx.Response]]


async def by_link(server: Served, handle: Handle[Any], payload: bytes) -> httpx.Response:
    url = urlsplit(await handle.link("decision"))
    return await server.http.post(f"{url.path}?{url.query}", content=payload)


async def by_id(server: Served, handle: Handle[Any], payload: bytes) -> httpx.Response:
    body = {"signal_id": SignalId.new(), "signal_name": "decision", "payload": b64encode(payload).decode()}
    return await server.http.post(f"{PREFIX}/executions/{handle.id}/signals", json=body)


async def by_token(server: Served, handle: Handle[Any], payload: bytes) -> httpx.Response:
    link = SignalLink.parse(await handle.link("decision"))
    body = {
        "signal_id": SignalId.new(),
        "signal_name": "decision",
        "payload": b64encode(payload).decode(),
        "waitpoint_token": link.token.reveal(),
    }
    return await server.http.post(f"{PREFIX}/executions/{handle.id}/waitpoints/{link.waitpoint_id}/signals", json=body)


@pytest.mark.parametrize("door", [by_link, by_id, by_token])
async def test_a_door_of_the_server_refuses_what_does_not_fit(fabric_kit: FabricKit, door: Door) -> None:
    async with serving(fabric_kit.backend) as server:
        handle = await waiting(fabric_kit)
        before = (await handle.history()).events
        for payload, field in ((BAD, "payload.publish"), (b"{}", "payload.publish"), (b"true", "payload")):
            refused = await door(server, handle, payload)
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid_answer"), refused.text
            assert refused.json()["details"]["field"] == field
            assert "must be" in refused.json()["message"]
        assert (await handle.history()).events == before
        assert await handle.status() == "suspended"
        accepted = await door(server, handle, GOOD)
        assert accepted.status_code == 200, accepted.text
        await fabric_kit.run_until_idle(worker)
        assert await handle.result() is True


async def test_a_client_refuses_what_does_not_fit_before_and_behind_a_server(fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as server, Fabric.connect(server.url) as remote:
        for fabric in (fabric_kit, remote):
            handle = await waiting(fabric_kit)
            there = fabric.handle(str(handle.id))
            link = await handle.link("decision")
            bad = {"publish": "yes"}
            for sent in (
                there.signal("decision", bad),
                there.signal("decision", bad, wait=5),
                fabric.signal(link, bad),
            ):
                with pytest.raises(InvalidAnswer, match=r"payload\.publish: must be true or false") as refused:
                    await sent
                assert refused.value.field == "payload.publish"
            assert await handle.status() == "suspended"
            await there.signal("decision", Decision(publish=True))
            await fabric_kit.run_until_idle(worker)
            assert await handle.result() is True


async def test_a_refused_answer_does_not_use_up_its_idempotency_key(fabric_kit: FabricKit) -> None:
    handle = await waiting(fabric_kit)
    with pytest.raises(InvalidAnswer):
        await handle.signal("decision", "yes", idempotency_key="once")
    assert isinstance(
        await handle.signal("decision", Decision(publish=False), idempotency_key="once"), c.ResumeTriggered
    )
    assert isinstance(await handle.signal("decision", "anything", idempotency_key="once"), c.SignalDuplicate)


async def test_a_signal_that_the_wait_does_not_count_may_carry_anything(fabric_kit: FabricKit) -> None:
    handle = await waiting(fabric_kit)
    link = SignalLink.parse(await handle.link("decision"))
    args = c.DeliverSignalArgs(
        execution_id=handle.id, waitpoint_id=link.waitpoint_id, waitpoint_token=link.token,
        signal_id=SignalId.new(), signal_name="chatter", payload=b'"hello"', payload_encoding="json",
    )  # fmt: skip
    assert isinstance(await fabric_kit.backend.deliver_signal(args), c.SignalAccepted)


def as_curl_sends_it(url: str, target: str, body: bytes, *headers: bytes) -> bytes:
    """The bytes of `curl -X POST URL -d BODY`: it calls the body a form."""
    lines = (
        f"POST {target} HTTP/1.1".encode(),
        f"Host: {urlsplit(url).netloc}".encode(),
        b"User-Agent: curl/8.5.0",
        b"Accept: */*",
        f"Content-Length: {len(body)}".encode(),
        b"Content-Type: application/x-www-form-urlencoded",
        *headers,
    )
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


async def test_the_curl_line_of_the_docs_works_as_printed(fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as server:
        handle = await waiting(fabric_kit)
        url = urlsplit(await handle.link("decision"))

        async def curl(body: bytes, target: str = f"{url.path}?{url.query}", *headers: bytes) -> Answer:
            return await ask(server.url, as_curl_sends_it(server.url, target, body, *headers))

        assert (await curl(BAD)).status == 422
        assert (await curl(b'{"publish": tr')).status == 422
        done = await curl(GOOD)
        assert (done.status, done.is_json) == (200, True), done.body
        await fabric_kit.run_until_idle(worker)
        assert await handle.result() is True


async def test_curl_without_a_header_reaches_every_json_route(fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as server:
        handle = await waiting(fabric_kit)
        link = SignalLink.parse(await handle.link("decision"))
        payload = b64encode(GOOD).decode()
        signal = f'"signal_id": "{SignalId.new()}", "signal_name": "decision", "payload": "{payload}"'
        by_waitpoint = f"{PREFIX}/executions/{handle.id}/waitpoints/{link.waitpoint_id}/signals"
        bodies = {
            f"{PREFIX}/executions/{handle.id}/tags": b'{"tags": {"team.color": "blue"}}',
            by_waitpoint: f'{{{signal}, "waitpoint_token": "{link.token.reveal()}"}}'.encode(),
        }
        for target, body in bodies.items():
            sent = as_curl_sends_it(server.url, target, body, b"Origin: https://evil.example")
            assert (await ask(server.url, sent)).status == 403, target
            done = await ask(server.url, as_curl_sends_it(server.url, target, body))
            assert done.status == 200, (target, done.body)
