"""Nothing that a caller sends makes the server fail: paths, headers and JSON of every kind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowfabric.backends.http.operations import OPERATIONS, Operation
from flowfabric.core.codec import from_json
from tests.http_server import HttpServer
from tests.server.raw import Answer, ask
from tests.soaking import examples

EXAMPLES = examples(60, soak=2_000)

_bytes_of_paths = st.binary(max_size=40).map(lambda data: b"".join(b"%%%02x" % each for each in data))
_parts = st.one_of(
    st.text(max_size=20).map(lambda text: b"".join(b"%%%02x" % each for each in text.encode("utf-8", "replace"))),
    _bytes_of_paths,
    st.sampled_from([b"..", b".", b"%2e%2e", b"%2f", b"%00", b"%0d%0a", b"executions", b"{fp:1}:0", b"%ff"]),
)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def server(embedded_url: str) -> Iterator[HttpServer]:
    started = HttpServer(embedded_url)
    yield started
    started.stop()


def _asked(server: HttpServer, request: bytes) -> Answer:
    return asyncio.run(ask(server.url, request))


def _is_fine(answer: Answer) -> None:
    """Answered, as no failure of the server, and an error in the one shape."""
    assert answer.status < 500 or answer.status == 503, answer
    if answer.status >= 400 and answer.is_json:
        assert {"code", "message", "retryable"} <= from_json(dict[str, Any], answer.body).keys(), answer


@given(st.sampled_from([b"GET", b"POST", b"PUT", b"DELETE", b"PATCH", b"HEAD"]), st.lists(_parts, max_size=5))
@settings(max_examples=EXAMPLES)
def test_any_path_is_answered(server: HttpServer, method: bytes, parts: list[bytes]) -> None:
    head = method + b" /v1/" + b"/".join(parts) + b" HTTP/1.1\r\nHost: localhost\r\n"
    _is_fine(_asked(server, head + b"Content-Length: 0\r\nConnection: close\r\n\r\n"))


@given(
    st.sampled_from(
        [b"Authorization", b"X-Request-Id", b"Last-Event-ID", b"Content-Type", b"Idempotency-Key", b"Origin"]
    ),
    st.binary(max_size=60).filter(lambda value: not set(value) & {0, 10, 13}),
)
@settings(max_examples=EXAMPLES)
def test_any_header_is_answered(server: HttpServer, name: bytes, value: bytes) -> None:
    head = b"POST /v1/executions HTTP/1.1\r\nHost: localhost\r\n" + name + b": " + value + b"\r\n"
    answer = _asked(server, head + b'Content-Length: 13\r\nConnection: close\r\n\r\n{"task": "t"}')
    _is_fine(answer)
    assert b"\r\n" not in (answer.headers.get(b"x-request-id") or b"")


def _called(server: HttpServer, operation: Operation, body: bytes) -> Answer:
    path = operation.path.replace("{execution_id}", f"%7Bfp:1%7D:{'0' * 8}-0000-4000-8000-{'0' * 12}")
    path = path.replace("{flow_id}", f"{'0' * 8}-0000-4000-8000-{'0' * 12}").replace("{", "").replace("}", "")
    head = f"{operation.method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    return _asked(server, head.encode() + b"Connection: close\r\n\r\n" + body)


_taking_bodies = st.sampled_from([each for each in OPERATIONS if each.has_body])


@given(_taking_bodies, st.data())
@settings(max_examples=2 * EXAMPLES)
def test_any_json_is_answered(server: HttpServer, operation: Operation, data: st.DataObject) -> None:
    names = operation.signature.request.__struct_fields__
    body = data.draw(_json | st.dictionaries(st.sampled_from(names), _json, max_size=6))
    _is_fine(_called(server, operation, json.dumps(body).encode()))


@given(_taking_bodies, st.binary(max_size=200))
@settings(max_examples=EXAMPLES)
def test_any_bytes_are_answered(server: HttpServer, operation: Operation, body: bytes) -> None:
    _is_fine(_called(server, operation, body))


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 50_000, b'"' + b"x" * 200_000, b"1e999", b"9" * 5_000])
@pytest.mark.parametrize("path", ["/v1/executions", "/v1/budgets", "/v1/work/claim", "/v1/executions/bulk"])
def test_json_that_is_made_to_hurt_is_refused(server: HttpServer, path: str, body: bytes) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    answer = _asked(server, head.encode() + body)
    assert answer.status == 422, answer
