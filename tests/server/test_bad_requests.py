"""What a mistaken call is told: the field, the value and what to do, with the status that fits."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from flowfabric import Fabric
from flowfabric.backends.http.backend import HttpBackend
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.config import Settings
from flowfabric.errors import FlowFabricError, InvalidInput
from flowfabric.server.access.tokens import Tokens, write_tokens
from flowfabric.server.http.listener import listening
from flowfabric.server.settings import ServerSettings
from tests.server.serving import Served, serving

UNKNOWN = "1-00000000-0000-4000-8000-000000000000"
FLOW = "00000000-0000-4000-8000-000000000000"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def topology() -> str:
    return "embedded"


@pytest.fixture
async def served(backend: ValkeyBackend) -> AsyncIterator[Served]:
    async with serving(backend, stop_grace_ms=0) as found:
        yield found


async def told(served: Served, method: str, path: str, **request: Any) -> tuple[int, str]:
    answer = await served.http.request(method, path, **request)
    return answer.status_code, answer.json()["message"]


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/v1/nothing", 404, "no route for /v1/nothing; /openapi.json lists all paths"),
        ("DELETE", "/v1/executions", 405, "/v1/executions takes GET, HEAD, POST, PUT, and no DELETE"),
        ("GET", f"/v1/executions/{UNKNOWN}", 404, f"{UNKNOWN}: no such execution"),
        ("GET", f"/v1/flows/{FLOW}", 404, f"{FLOW}: no such flow"),
        ("GET", "/v1/executions?limit=1&limit=2", 422, "limit: must be given once (got '1, 2')"),
        ("GET", "/v1/executions?colour=red", 422, "colour: is not a known field; known fields: namespace, lane_id, "),
        ("GET", "/v1/executions?tags=x", 422, "tags: is not JSON: invalid character"),
        ("GET", f"/v1/executions?cursor={'a' * 3_000}", 422, "cursor: must be a cursor that an earlier page of exec"),
    ],
)
async def test_a_wrong_address_says_what_is_wrong(
    served: Served, method: str, path: str, status: int, words: str
) -> None:
    found, message = await told(served, method, path)
    assert found == status
    assert message.startswith(words)


@pytest.mark.parametrize(
    ("body", "headers", "words"),
    [
        (b'{"task":"greet"}', {"Content-Type": "text/plain"}, "task: must be in the address, like ?task=greet, as "),
        (b"", JSON, "json: is not JSON: it is empty or truncated"),
        (b"{no", JSON, "json: is not JSON: object keys must be strings"),
        (b'{"task":"greet","dely":1}', JSON, "dely: is not a known field; known fields: task, args, kwargs, "),
        (
            b'{"task":"greet","idempotency_key":"b"}',
            JSON | {"Idempotency-Key": "a"},
            "idempotency_key: must be omitted",
        ),
    ],
)
async def test_a_wrong_submission_is_told_so_and_none_is_made(
    served: Served, fabric: Fabric, body: bytes, headers: dict[str, str], words: str
) -> None:
    status, message = await told(served, "POST", "/v1/executions", content=body, headers=headers)
    assert status == 422
    assert message.startswith(words)
    assert (await fabric.list()).executions == ()


@pytest.fixture
async def fabric(backend: ValkeyBackend) -> Fabric:
    return Fabric(backend)


@pytest.mark.parametrize("path", ["/v1/executions/{execution}/events", "/v1/flows/{flow}/events", "/v1/events/stream"])
async def test_a_stream_behind_no_place_is_refused_before_it_begins(served: Served, fabric: Fabric, path: str) -> None:
    execution = (await fabric.submit("greet")).id
    async with fabric.flow("letters") as flow:
        flow.add("greet")
    path = path.format(execution=execution, flow=flow.id)
    status, message = await told(served, "GET", path, headers={"Last-Event-ID": "bogus"})
    assert status == 422
    assert message.startswith("cursor: must be a cursor that an earlier page of events gave (got 'bogus')")


async def test_a_port_that_somebody_has_is_told(backend: ValkeyBackend) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match=r"port: cannot be listened on \(Address already in use\)"):
            async with listening(backend, ServerSettings(port=port)):
                pass


@pytest.mark.parametrize("origin", ["nonsense", "https://", "https://a.example/page", "ftp://a.example"])
def test_what_is_no_site_is_no_origin(origin: str) -> None:
    with pytest.raises(InvalidInput, match="origin: must be a site"):
        ServerSettings(origins=(origin,))


def test_a_file_of_tokens_that_cannot_be_read_or_written_is_told(tmp_path: Any) -> None:
    with pytest.raises(InvalidInput, match=r"tokens: cannot be read: No such file.*`flowfabric token new` makes it"):
        Tokens(str(tmp_path / "none.json"))
    with pytest.raises(InvalidInput, match="tokens: cannot be written: No such file"):
        write_tokens(tmp_path / "nowhere" / "tokens.json", [])


@pytest.mark.parametrize("url", ["http://", "http:///path", "http://127.0.0.1:99999", "http://127.0.0.1:abc"])
async def test_an_address_without_a_host_or_with_a_wrong_port_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="url: must have a host"):
        await HttpBackend.open(Settings(url=url))


async def test_what_is_no_server_of_ours_is_told_from_one_that_is_down(served: Served) -> None:
    with pytest.raises(InvalidInput, match="url: must be a FlowFabric server") as refused:
        await HttpBackend.open(Settings(url=f"{served.url}/v1"))
    assert "no route for /v1/v1/store" in refused.value.message


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<html", "invalid_input", "must be a FlowFabric server"),
        (b"HTTP/1.1 301 No\r\nLocation: https://x/\r\nContent-Length: 0\r\n\r\n", "invalid_input", "redirects to"),
        (b"HTTP/1.1 502 No\r\nContent-Length: 5\r\n\r\n<html", "backend_unavailable", "a proxy replied 502"),
    ],
)
async def test_whoever_else_answers_is_told(answer: bytes, code: str, words: str) -> None:
    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        with pytest.raises(FlowFabricError, match=words) as refused:
            await HttpBackend.open(Settings(url=f"http://127.0.0.1:{port}", retry_budget_ms=0))
    assert refused.value.code == code
