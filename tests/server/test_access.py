"""Every address asks for a token, for its scope, and for the namespace of what it touches."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from flowfabric import Fabric
from flowfabric.backends.http.operations import OPERATIONS, Operation, Reach, Scope
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.core import contracts as c
from flowfabric.core.ids import FlowId, Namespace
from tests.server.guarded import OURS, THEIRS, TokenFile, filled, guarded, guarded_addresses

# Any token may ask these.
ANY_SCOPE = frozenset({"/v1/store"})
# These stream what happens in the namespaces of the token.
OWN_STREAMS = frozenset({"/v1/events/stream"})
Asked = tuple[str, str, httpx.Response]


@pytest.fixture
def topology() -> str:
    return "embedded"


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    file = TokenFile(tmp_path / "tokens.json")
    file.add("root", [Scope.ADMIN])
    file.add("idle", [])
    file.add("stranger", [Scope.ADMIN], [THEIRS])
    for scope in Scope:
        file.add(f"all but {scope}", [each for each in Scope if each not in (scope, Scope.ADMIN)])
    for scopes in {each.scopes for each in OPERATIONS if len(each.scopes) > 1}:
        file.add(f"all but {scopes}", [each for each in Scope if each not in (*scopes, Scope.ADMIN)])
    return file


@pytest.fixture
async def http(backend: ValkeyBackend, tokens: TokenFile) -> AsyncIterator[httpx.AsyncClient]:
    async with guarded(backend, tokens) as client:
        yield client


async def _ask(http: httpx.AsyncClient, method: str, path: str, **more: Any) -> httpx.Response:
    """The answer; of one that goes on, its head."""
    content = None if method == "GET" else b"{}"
    async with http.stream(method, path, content=content, **more) as answer:
        if not answer.headers["content-type"].startswith("text/event-stream"):
            await answer.aread()
        return answer


async def _ask_all(
    http: httpx.AsyncClient, backend: ValkeyBackend, fill: Callable[[str], str] = filled, **more: Any
) -> list[Asked]:
    return [(method, path, await _ask(http, method, fill(path), **more)) for method, path in guarded_addresses(backend)]


async def _ask_each(http: httpx.AsyncClient, operations: list[Operation], headers: dict[str, str]) -> list[Asked]:
    return [
        (each.method, each.path, await _ask(http, each.method, filled(each.path), headers=headers))
        for each in operations
    ]


def _passed(answers: list[Asked], *statuses: int) -> list[str]:
    return [
        f"{method} {path}: {answer.status_code}"
        for method, path, answer in answers
        if answer.status_code not in statuses
    ]


async def test_no_address_answers_without_a_token(http: httpx.AsyncClient, backend: ValkeyBackend) -> None:
    answers = await _ask_all(http, backend)
    assert not _passed(answers, 401)
    assert all(answer.headers["www-authenticate"] == "Bearer" for _, _, answer in answers)


async def test_no_address_answers_to_a_wrong_token(http: httpx.AsyncClient, backend: ValkeyBackend) -> None:
    assert not _passed(await _ask_all(http, backend, headers={"Authorization": "Bearer fft_wrong"}), 401)


@pytest.mark.parametrize("shown", ["Bearer", "Basic cm9vdDpyb290", "fft_wrong", "", "Bearer Bearer", "Token {}", "{}"])
async def test_only_a_bearer_token_counts(http: httpx.AsyncClient, tokens: TokenFile, shown: str) -> None:
    headers = {"Authorization": shown.format(tokens.texts["root"])}
    assert (await http.get("/v1/store", headers=headers)).status_code == 401
    assert (await http.get("/v1/store", headers=tokens.headers("root"))).status_code == 200


async def test_no_address_answers_to_a_token_without_scopes(
    http: httpx.AsyncClient, backend: ValkeyBackend, tokens: TokenFile
) -> None:
    answers = await _ask_all(http, backend, headers=tokens.headers("idle"))
    assert not _passed([each for each in answers if each[1] not in ANY_SCOPE], 403)
    assert not _passed([each for each in answers if each[1] in ANY_SCOPE], 200)


@pytest.mark.parametrize("scope", list(Scope))
async def test_no_operation_answers_to_a_token_that_lacks_its_scope(
    http: httpx.AsyncClient, tokens: TokenFile, scope: Scope
) -> None:
    headers = tokens.headers(f"all but {scope}")
    operations = [each for each in OPERATIONS if each.scopes == (scope,)]
    answers = await _ask_each(http, operations, headers)
    assert operations
    assert not _passed(answers, 403)
    assert {answer.json()["details"]["scope"] for _, _, answer in answers} == {scope}


async def test_no_operation_of_two_scopes_answers_to_a_token_that_lacks_both(
    http: httpx.AsyncClient, tokens: TokenFile
) -> None:
    operations = [each for each in OPERATIONS if len(each.scopes) > 1]
    assert operations
    for operation in operations:
        answers = await _ask_each(http, [operation], tokens.headers(f"all but {operation.scopes}"))
        assert not _passed(answers, 403)
        assert " or ".join(operation.scopes) in answers[0][2].json()["message"]


async def _ours(backend: ValkeyBackend) -> dict[str, str]:
    """An execution and a flow."""
    handle = await Fabric(backend, namespace=OURS).submit("anything")
    flow_id = FlowId(str(uuid.uuid4()))
    await backend.create_flow(c.CreateFlowArgs(flow_id=flow_id, flow_kind="graph", namespace=Namespace(OURS)))
    return {"execution_id": handle.id.short, "flow_id": str(flow_id)}


async def test_what_belongs_to_other_namespaces_is_as_good_as_not_there(
    http: httpx.AsyncClient, backend: ValkeyBackend, tokens: TokenFile
) -> None:
    ours = await _ours(backend)
    absent = {
        "execution_id": ours["execution_id"].partition("-")[0] + f"-{uuid.uuid4()}",
        "flow_id": str(uuid.uuid4()),
    }
    for operation in OPERATIONS:
        if operation.reach not in (Reach.EXECUTION, Reach.FLOW):
            continue
        headers = tokens.headers("stranger") | {"X-Request-Id": "same"}
        found = await _ask(http, operation.method, filled(operation.path, **ours), headers=headers)
        missed = await _ask(http, operation.method, filled(operation.path, **absent), headers=headers)
        told = found.text
        for name, value in ours.items():
            told = told.replace(value, absent[name])
        assert (found.status_code, told) == (missed.status_code, missed.text), operation
        assert found.status_code in (404, 422) or operation.port == "history", operation


async def test_what_concerns_all_namespaces_takes_a_token_for_all(http: httpx.AsyncClient, tokens: TokenFile) -> None:
    operations = [each for each in OPERATIONS if each.reach is Reach.STORE]
    assert not _passed(await _ask_each(http, operations, tokens.headers("stranger")), 403)


async def test_no_address_tells_a_stranger_of_what_is_ours(
    http: httpx.AsyncClient, backend: ValkeyBackend, tokens: TokenFile
) -> None:
    ours = await _ours(backend)
    asked = await _ask_all(http, backend, lambda path: filled(path, **ours), headers=tokens.headers("stranger"))
    for method, path, answer in asked:
        is_stream = answer.headers["content-type"].startswith("text/event-stream")
        assert answer.status_code >= 400 or not is_stream or path in OWN_STREAMS, f"{method} {path} streams"
        if answer.status_code < 400 and not is_stream:
            assert not any(each in answer.text for each in ours.values()), f"{method} {path} tells {answer.text}"


def _execution(namespace: str, **more: Any) -> dict[str, Any]:
    execution_id = f"{{fp:1}}:{uuid.uuid4()}"
    return {"execution_id": execution_id, "namespace": namespace, "lane_id": "default", "execution_kind": "k"} | more


_FLOW = str(uuid.uuid4())

FOREIGN: dict[str, tuple[str, str, dict[str, Any]]] = {
    "create_execution": ("PUT", "/v1/executions", _execution(OURS)),
    "submit_executions": ("POST", "/v1/executions/batch", {"batch": [_execution(THEIRS), _execution(OURS)]}),
    "submit": ("POST", "/v1/executions", {"task": "t", "namespace": OURS}),
    "submit_bulk": ("POST", "/v1/executions/bulk", {"submissions": [{"task": "t"}, {"task": "t", "namespace": OURS}]}),
    "create_flow": ("PUT", "/v1/flows", {"flow_id": _FLOW, "flow_kind": "f", "namespace": OURS}),
    "submit_flow": ("POST", "/v1/flows", {"flow_id": _FLOW, "namespace": OURS, "members": [_execution(OURS)]}),
    "submit_flow with a member": (
        "POST", "/v1/flows", {"flow_id": _FLOW, "namespace": THEIRS, "members": [_execution(OURS)]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
async def test_nothing_is_put_into_other_namespaces(
    http: httpx.AsyncClient, backend: ValkeyBackend, tokens: TokenFile, name: str
) -> None:
    method, path, body = FOREIGN[name]
    answer = await http.request(method, path, json=body, headers=tokens.headers("stranger"))
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), answer.text
    assert not await backend.count_executions()


@pytest.mark.parametrize("path", ["/v1/executions", "/v1/flows", "/v1/events"])
async def test_lists_are_of_the_token_s_namespace(
    http: httpx.AsyncClient, backend: ValkeyBackend, tokens: TokenFile, path: str
) -> None:
    await _ours(backend)
    headers = tokens.headers("stranger")
    assert OURS not in (await http.get(path, headers=headers)).text
    assert (await http.get(path, params={"namespace": OURS}, headers=headers)).status_code == 403
    assert (await http.get(path, headers=tokens.headers("root"))).status_code == 200


async def test_who_submitted_is_kept_with_the_execution(
    http: httpx.AsyncClient, backend: ValkeyBackend, tokens: TokenFile
) -> None:
    answer = await http.post("/v1/executions", json={"task": "greet"}, headers=tokens.headers("root"))
    assert answer.status_code == 201
    execution_id = answer.json()["execution_id"]
    tag = execution_id.rpartition(":")[0]
    assert await backend.client.execute("HGET", f"ff:exec:{tag}:{execution_id}:core", "creator_identity") == b"root"
