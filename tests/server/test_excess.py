"""More than a request may bring, from those who have a token and those who have none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowfabric import Fabric
from flowfabric.backends.http.operations import Scope
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.core import limits
from flowfabric.errors import InvalidInput
from flowfabric.server.access.tokens import Tokens
from flowfabric.server.http.bounds import read_json
from flowfabric.server.reference.openapi import document
from tests.server.guarded import TokenFile, guarded
from tests.server.serving import serving
from tests.server.tenants.strangers import stranger

DEEPEST = limits.JSON_MAX_DEPTH
LINK = "/v1/executions/{fp:1}:00000000-0000-4000-8000-000000000000/waitpoints/00000000-0000-4000-8000-000000000000"


@pytest.fixture
def topology() -> str:
    return "embedded"


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    file = TokenFile(tmp_path / "tokens.json")
    file.add("root", [Scope.ADMIN])
    return file


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of the rates stands still: on a busy machine a bucket would fill between two calls."""
    monkeypatch.setattr("flowfabric.server.access.rates.monotonic", lambda: 1_000.0)


# Who calls.


async def test_a_forwarded_address_of_a_stranger_is_not_believed(backend: ValkeyBackend) -> None:
    async with serving(backend, rate_per_second=1, rate_burst=5) as served:
        answers = [
            await served.http.get("/v1/store", headers={"X-Forwarded-For": f"10.0.0.{number}"}) for number in range(20)
        ]
    assert [each.status_code for each in answers[5:]].count(429) >= 10


async def test_a_forwarded_address_of_a_named_proxy_is_believed(backend: ValkeyBackend) -> None:
    settings: dict[str, Any] = {"rate_per_second": 1, "rate_burst": 5, "proxies": ("127.0.0.1", "10.9.0.0/16")}
    async with serving(backend, **settings) as served:

        async def calls(said: str) -> list[int]:
            return [
                (await served.http.get("/v1/store", headers={"X-Forwarded-For": said})).status_code for _ in range(8)
            ]

        assert 429 in await calls("10.0.0.1")
        assert (await calls("10.0.0.2"))[:5] == [200] * 5
        assert 429 in await calls("6.6.6.6, 10.0.0.2, 10.9.0.7"), "the last that is no proxy counts"
        assert (await calls("nonsense"))[:5] == [200] * 5
        assert set(await calls("other nonsense")) == {429}, "nonsense is the proxy's own"


async def test_wrong_tokens_are_limited_by_address_and_the_right_one_is_let_in(
    backend: ValkeyBackend, tokens: TokenFile
) -> None:
    async with guarded(backend, tokens, failures_per_second=1, failure_burst=10) as http:
        wrong = [
            await http.get(
                "/v1/store", headers={"Authorization": f"Bearer fft_{number}", "X-Forwarded-For": f"10.0.0.{number}"}
            )
            for number in range(40)
        ]
        assert [each.status_code for each in wrong[:10]] == [401] * 10
        limited = [each for each in wrong if each.status_code == 429]
        assert len(limited) >= 20
        assert limited[0].headers["connection"] == "close"
        assert int(limited[0].headers["retry-after"]) >= 1
        assert (await http.get("/v1/store")).status_code == 429
        assert (await http.get("/v1/store", headers=tokens.headers("root"))).status_code == 200


async def test_forged_links_are_limited_like_wrong_tokens(backend: ValkeyBackend, tokens: TokenFile) -> None:
    async with guarded(backend, tokens, failures_per_second=1, failure_burst=5) as http:
        path = f"{LINK}/signals"
        shown = [(await http.get(path, params={"token": f"k1:{number:040x}"})).status_code for number in range(20)]
        assert shown[:5] == [404] * 5
        assert shown.count(429) >= 10
        sent = await http.post(path, params={"token": "k1:00", "name": "go"}, content=b"{}")
        assert sent.status_code == 429


async def test_a_token_in_a_trailer_is_not_believed(backend: ValkeyBackend, tokens: TokenFile) -> None:
    async with guarded(backend, tokens) as http, stranger(str(http.base_url)) as one:
        head = "POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        body = '{"task": "t"}'
        trailer = f"Authorization: Bearer {tokens.texts['root']}\r\n"
        await one.send(f"{head}{len(body):x}\r\n{body}\r\n0\r\n{trailer}\r\n".encode())
        assert await one.answer() == 401
    assert not await backend.count_executions()


@pytest.mark.parametrize("path", ["/v1/store/", "/healthz/", f"{LINK}/signals/", "//v1/store", "/v1/executions/bulk/"])
async def test_no_address_is_redirected(backend: ValkeyBackend, path: str) -> None:
    async with serving(backend) as served:
        for method in ("GET", "POST"):
            answer = await served.http.request(method, path, params={"token": "k1:secret"})
            assert answer.status_code in (403, 404, 405, 422), answer
            assert "location" not in answer.headers
            assert "secret" not in str(answer.headers) + answer.text


# How much.


async def test_queries_have_a_bounded_number_of_members(backend: ValkeyBackend) -> None:
    async with serving(backend) as served:
        for path in ("/v1/executions", "/v1/overview", "/healthz", "/v1/nothing", f"{LINK}/signals"):
            answer = await served.http.get(f"{path}?" + "&".join(f"a{number}=1" for number in range(4_000)))
            assert answer.status_code == 422, path
            assert answer.json()["message"] == "query: must have at most 1000 (got '4000 members')"
            assert answer.headers["x-request-id"]


async def test_a_form_has_a_bounded_number_of_fields(backend: ValkeyBackend) -> None:
    async with serving(backend) as served:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = await served.http.post(f"{LINK}/signals", content=b"a=1&" * 20_000, headers=form)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")


@pytest.mark.parametrize("nested", ["[" * 50_000, '{"a":' * 50_000, "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1)])
async def test_json_of_too_many_levels_is_422_wherever_it_comes(backend: ValkeyBackend, nested: str) -> None:
    async with serving(backend) as served:
        for path in ("/v1/executions", "/v1/executions/bulk", "/v1/budgets", "/v1/work/claim"):
            answer = await served.http.post(path, content=nested, headers={"Content-Type": "application/json"})
            assert answer.status_code == 422, path
        answer = await served.http.get("/v1/executions", params={"tags": nested[:4_000]})
        assert answer.status_code == 422
        answer = await served.http.post(f"{LINK}/signals", params={"token": "k1:00"}, content=nested)
        assert answer.status_code == 422


@pytest.mark.parametrize(
    "text", ["[" * DEEPEST + "]" * DEEPEST, json.dumps(["[" * 500, '\\"[' * 500]), "[" + "[],[{}]," * 500 + "1]"]
)
def test_json_of_as_many_levels_as_there_may_be_is_read(text: str) -> None:
    assert read_json(Any, text) == json.loads(text)
    assert read_json(Any, text.encode()) == json.loads(text)


@pytest.mark.parametrize("text", ['["' + "]" * 200 + '",' * 1 + "[" * (DEEPEST) + "]" * (DEEPEST) + "]"])
def test_brackets_in_strings_hide_no_levels(text: str) -> None:
    json.loads(text)
    with pytest.raises(InvalidInput, match="must not be nested deeper than 100 levels"):
        read_json(Any, text)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/executions/bulk", {"submissions": [{"task": "t"}] * 100_000}),
        ("/v1/executions/batch", {"batch": [{}] * 100_000}),
        ("/v1/work/frames", {"batch": [{}] * 100_000}),
        ("/v1/work/finish", {"partition": "{fp:1}", "finish": [{}] * 100_000}),
    ],
)
async def test_a_call_of_too_many_items_is_refused_and_others_do_not_wait_for_it(
    backend: ValkeyBackend, path: str, body: dict[str, Any]
) -> None:
    async with serving(backend) as served:
        answer = await served.http.post(path, json=body)
        assert answer.status_code == 422
        assert "must hold at most 1000" in answer.json()["message"]
    assert not await backend.count_executions()


async def test_a_full_bulk_is_made_in_slices(backend: ValkeyBackend) -> None:
    async with serving(backend) as served:
        bulk = {"submissions": [{"task": "t", "lane": "work"}] * limits.REQUEST_MAX_ITEMS}
        answer = await served.http.post("/v1/executions/bulk", json=bulk)
        assert answer.status_code == 200
        assert {each["outcome"] for each in answer.json()} == {"created"}


async def test_a_bulk_call_counts_its_items_in_the_rate(backend: ValkeyBackend, tokens: TokenFile) -> None:
    tokens.add("other", [Scope.ADMIN])
    async with guarded(backend, tokens, rate_per_second=1, rate_burst=20) as http:
        bulk = {"submissions": [{"task": "t"}] * 50}
        assert (await http.post("/v1/executions/bulk", json=bulk, headers=tokens.headers("root"))).status_code == 200
        answer = await http.get("/v1/store", headers=tokens.headers("root"))
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) > 20
        assert (await http.get("/v1/store", headers=tokens.headers("other"))).status_code == 200


async def test_a_batch_of_the_client_counts_its_items_in_the_rate(backend: ValkeyBackend) -> None:
    async with serving(backend, rate_per_second=1, rate_burst=20) as served, Fabric.connect(served.url) as fabric:
        await fabric.submit_many("t", [(number,) for number in range(50)])
        assert (await served.http.get("/v1/store")).status_code == 429


def _unbounded(schema: Any, schemas: dict[str, Any], where: str) -> Iterator[str]:
    """Where lists of objects have no bound; conditions and fallback tiers are bounded by their nodes instead."""
    if isinstance(schema, list):
        for each in schema:
            yield from _unbounded(each, schemas, where)
    elif isinstance(schema, dict) and "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        if f"<{name}>" not in where:
            yield from _unbounded(schemas[name], schemas, f"{where}<{name}>")
    elif isinstance(schema, dict):
        if schema.get("type") == "array" and "$ref" in json.dumps(schema.get("items")) and "maxItems" not in schema:
            yield where
        for name, each in schema.items():
            yield from _unbounded(each, schemas, f"{where}.{name}")


def test_every_list_of_items_in_a_request_has_a_bound_in_the_document() -> None:
    found = document([])
    schemas = found["components"]["schemas"]
    bodies = {
        f"{method} {path}": operation.get("requestBody")
        for path, methods in found["paths"].items()
        for method, operation in methods.items()
    }
    places = [place for where, body in bodies.items() for place in _unbounded(body, schemas, where)]
    assert not [each for each in places if "resume_condition" not in each and "tiers" not in each]
    assert "1000 items" in found["info"]["description"]
    assert "100 levels" in found["info"]["description"]


# The file of tokens.


@pytest.mark.parametrize("mode", [0o666, 0o660, 0o602, 0o777])
def test_a_file_of_tokens_that_others_may_write_is_refused(tokens: TokenFile, mode: int) -> None:
    tokens.path.chmod(mode)
    with pytest.raises(InvalidInput, match=rf"tokens: has mode {mode:o}: others may write it; run: chmod 600 "):
        Tokens(str(tokens.path))


def test_a_folder_that_anybody_may_write_is_refused_unless_it_is_sticky(tokens: TokenFile) -> None:
    tokens.path.parent.chmod(0o777)
    with pytest.raises(InvalidInput, match="its folder is writable by all users"):
        Tokens(str(tokens.path))
    tokens.path.parent.chmod(0o1777)
    Tokens(str(tokens.path))


@pytest.mark.parametrize(("of_file", "of_folder"), [(0o644, 0o700), (0o600, 0o770)])
def test_a_file_of_tokens_that_others_may_read_is_told(
    tokens: TokenFile, of_file: int, of_folder: int, caplog: pytest.LogCaptureFixture
) -> None:
    tokens.path.chmod(of_file)
    tokens.path.parent.chmod(of_folder)
    Tokens(str(tokens.path))
    assert "run: chmod" in caplog.text


def test_a_file_that_becomes_writable_leaves_the_tokens_that_are_known(
    tokens: TokenFile, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0
    found = Tokens(str(tokens.path), lambda: now)
    tokens.path.chmod(0o666)
    now = 2.0
    assert found.find(f"Bearer {tokens.texts['root']}").name == "root"
    assert "others may write it" in caplog.text
