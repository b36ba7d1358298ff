"""What a server does against those who mean it no good: pages, bodies, floods, and files that change under it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from flowfabric import Fabric
from flowfabric.backends.http.operations import OPERATIONS, Scope
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.errors import InvalidInput
from flowfabric.server.access.rates import Rates
from flowfabric.server.access.tokens import Tokens
from flowfabric.server.http.listener import listening
from flowfabric.server.settings import ServerSettings
from tests.server.guarded import TokenFile, guarded

EVIL = "https://evil.example"


@pytest.fixture
def topology() -> str:
    return "embedded"


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    file = TokenFile(tmp_path / "tokens.json")
    file.add("root", [Scope.ADMIN])
    return file


@pytest.fixture
async def open_http(backend: ValkeyBackend) -> AsyncIterator[httpx.AsyncClient]:
    """A server without tokens."""
    async with listening(backend, ServerSettings(port=0)) as url, httpx.AsyncClient(base_url=url) as http:
        yield http


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "10.0.0.1", "example.com", ""])
def test_a_public_address_without_tokens_is_refused(host: str) -> None:
    with pytest.raises(InvalidInput, match="is not loopback"):
        ServerSettings(host=host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_tokens(host: str) -> None:
    assert ServerSettings(host=host).tokens == ""


def test_a_public_address_with_tokens_is_served(tokens: TokenFile) -> None:
    assert ServerSettings(host="0.0.0.0", tokens=str(tokens.path)).host == "0.0.0.0"


@pytest.mark.parametrize("path", ["/healthz", "/v1/store", "/v1/nowhere", "/v1/executions/x", "/openapi.json"])
async def test_every_answer_keeps_browsers_careful(open_http: httpx.AsyncClient, path: str) -> None:
    headers = (await open_http.get(path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "server" not in headers
    assert len(headers["x-request-id"]) >= 16
    if path.startswith("/v1"):
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("given", "is_kept"), [("abc-1", True), ("a b", False), ("x" * 65, False), ("<script>", False)]
)
async def test_a_request_id_is_kept_when_it_is_harmless(
    open_http: httpx.AsyncClient, given: str, is_kept: bool
) -> None:
    answer = await open_http.get("/v1/nowhere", headers={"X-Request-Id": given})
    assert (answer.headers["x-request-id"] == given) is is_kept
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


async def test_pages_of_other_sites_get_nothing(open_http: httpx.AsyncClient, backend: ValkeyBackend) -> None:
    for headers in ({"Origin": EVIL}, {"Origin": "null"}, {"Host": "evil.example"}, {"Host": "[bad"}):
        asked = await open_http.get("/v1/store", headers=headers)
        sent = await open_http.post("/v1/executions", content=b'{"task": "t"}', headers=headers)
        assert (asked.status_code, sent.status_code) == (403, 403), headers
        assert "access-control-allow-origin" not in asked.headers
    assert not await backend.count_executions()


async def test_a_server_s_own_pages_call_it(open_http: httpx.AsyncClient) -> None:
    own = str(open_http.base_url).rstrip("/")
    assert (await open_http.get("/v1/store", headers={"Origin": own})).status_code == 200


async def test_no_other_site_is_let_in_by_preflight(open_http: httpx.AsyncClient) -> None:
    headers = {"Origin": EVIL, "Access-Control-Request-Method": "POST"}
    answer = await open_http.request("OPTIONS", "/v1/executions", headers=headers)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_a_named_site_is_let_in(backend: ValkeyBackend) -> None:
    site = "https://console.example"
    settings = ServerSettings(port=0, origins=(site,))
    async with listening(backend, settings) as url, httpx.AsyncClient(base_url=url) as http:
        answer = await http.get("/v1/store", headers={"Origin": site})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, site)
        assert (await http.get("/v1/store", headers={"Origin": EVIL})).status_code == 403


async def test_a_body_that_is_too_large_is_refused_before_it_is_read(open_http: httpx.AsyncClient) -> None:
    limits = {each.path: each.takes_payloads for each in OPERATIONS if each.method == "POST"}
    for path in ("/v1/budgets", "/v1/work/frames", "/v1/executions"):
        most = ServerSettings().payload_body_bytes if limits.get(path, True) else ServerSettings().body_bytes
        answer = await open_http.post(path, content=b"x" * (most + 1))
        assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
        assert answer.json()["details"]["limit"] == most


async def test_a_body_of_unknown_length_is_cut_off_where_it_is_too_large(open_http: httpx.AsyncClient) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 64 * 1024 * 1024:
            sent += 65_536
            yield b" " * 65_536

    try:
        answer = await open_http.post("/v1/budgets", content=endless())
        assert answer.status_code == 413
    except (httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
        pass  # the server hung up, which is as good
    assert sent < 16 * 1024 * 1024
    assert (await open_http.get("/healthz")).status_code == 200


async def test_a_body_that_comes_too_slowly_is_refused(backend: ValkeyBackend) -> None:
    settings = ServerSettings(port=0, body_timeout_ms=100)
    async with listening(backend, settings) as url:
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /v1/budgets HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        async with asyncio.timeout(20):
            answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"must arrive within 100 ms" in answer


async def test_a_caller_that_calls_too_often_is_told_when_to_come_back(
    backend: ValkeyBackend, tokens: TokenFile
) -> None:
    tokens.add("other", [Scope.READ])
    async with guarded(backend, tokens, rate_per_second=1, rate_burst=3) as http:
        answers = [await http.get("/v1/store", headers=tokens.headers("root")) for _ in range(8)]
        limited = [each for each in answers if each.status_code == 429]
        assert limited
        assert int(limited[0].headers["retry-after"]) >= 1
        assert limited[0].json()["retryable"]
        assert (await http.get("/v1/store", headers=tokens.headers("other"))).status_code == 200
        assert (await http.get("/healthz")).status_code == 200


def test_a_bucket_fills_again() -> None:
    now = 0.0
    rates = Rates(per_second=10, burst=2, clock=lambda: now)
    for _ in range(2):
        rates.take("me")
    with pytest.raises(Exception, match="more than 10 calls a second"):
        rates.take("me")
    now = 0.1
    rates.take("me")


class _Hand:
    """A clock that is turned by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def _is_known(found: Tokens, text: str) -> bool:
    try:
        found.find(f"Bearer {text}")
    except Exception:
        return False
    return True


def test_tokens_are_rotated_while_the_server_runs(tokens: TokenFile) -> None:
    clock = _Hand()
    found = Tokens(str(tokens.path), clock)
    old, new = tokens.texts["root"], tokens.add("new root", [Scope.ADMIN])
    clock.now = 2
    assert _is_known(found, old)
    assert _is_known(found, new)
    tokens.remove("root")
    clock.now = 4
    assert not _is_known(found, old)
    assert _is_known(found, new)


@pytest.mark.parametrize("damage", ["[", "", '[{"name": "x"}]', None])
def test_a_damaged_file_of_tokens_leaves_those_known(
    tokens: TokenFile, damage: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    clock = _Hand()
    found = Tokens(str(tokens.path), clock)
    if damage is None:
        tokens.path.unlink()
    else:
        tokens.path.write_text(damage)
    clock.now = 2
    assert _is_known(found, tokens.texts["root"])
    assert "keeping the current tokens" in caplog.text


def test_a_server_does_not_start_on_a_damaged_file_of_tokens(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    with pytest.raises((InvalidInput, OSError)):
        Tokens(str(path))
    path.write_text("{}")
    with pytest.raises(InvalidInput):
        Tokens(str(path))


def test_a_file_of_tokens_holds_digests_and_is_its_owner_s_alone(tokens: TokenFile) -> None:
    assert tokens.texts["root"] not in tokens.path.read_text()
    assert tokens.path.stat().st_mode & 0o077 == 0
    assert [each.name for each in tokens.path.parent.iterdir()] == ["tokens.json"]


async def test_what_operators_do_is_in_the_audit_log(
    backend: ValkeyBackend, tokens: TokenFile, caplog: pytest.LogCaptureFixture
) -> None:
    tokens.add("ops", [Scope.OPERATE, Scope.READ, Scope.SUBMIT])
    handle = await Fabric(backend).submit("anything")
    caplog.set_level(logging.INFO, "flowfabric.audit")
    async with guarded(backend, tokens) as http:
        headers = tokens.headers("ops") | {"X-Request-Id": "asked-1"}
        await http.get(f"/v1/executions/{handle.id}", headers=headers)
        await http.post("/v1/executions", json={"task": "t"}, headers=headers)
        answer = await http.post(f"/v1/executions/{handle.id}/tags", json={"tags": {"team.who": "me"}}, headers=headers)
        assert answer.status_code == 200, answer.text
    (line,) = [each for each in caplog.records if each.name == "flowfabric.audit"]
    assert line.__dict__["audit"] == {
        "action": "set_execution_tags", "token": "ops", "request_id": "asked-1", "execution_id": handle.id.short,
    }  # fmt: skip
    assert "set_execution_tags by ops" in line.getMessage()


def test_every_operation_of_operators_is_audited() -> None:
    audited = {each.port for each in OPERATIONS if each.is_audited}
    assert {"cancel_execution", "read_waitpoint_token", "rotate_waitpoint_hmac_secret", "trim_executions"} <= audited
    quiet = [each for each in OPERATIONS if not each.is_audited and each.scope in (Scope.OPERATE, Scope.ADMIN)]
    assert all(each.path.startswith("/v1/engine/") for each in quiet)
