"""Every operation, every place of it that holds an id: a foreign id is answered as one that does not exist.

The requests are made from the types of the operations, so that a new operation, or a new member of an old one, is tried
without anybody remembering it. What the generator cannot make a request for fails.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path as File
from typing import Any

import httpx
import pytest

from flowfabric.backends.http.operations import OPERATIONS, Operation, Reach, Scope
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.errors.texts import with_short_ids
from flowfabric.server.http.decoding import request_type
from tests.server.guarded import OPEN, TokenFile, addresses, filled, guarded
from tests.server.tenants.tenant_calls import MADE, Call, unknown
from tests.server.tenants.tenant_requests import Place, place_name, places
from tests.server.tenants.tenant_worlds import World, dump

OURS, THEIRS = "ours", "theirs"

TENANTS = [each for each in OPERATIONS if each.reach is not Reach.STORE]
STORE = [each for each in OPERATIONS if each.reach is Reach.STORE]
# Codes that say that a request was not understood, or did not come to what it is about.
NOT_TRIED = {
    "invalid_input", "unauthorized", "forbidden", "execution_not_found", "flow_not_found", "waitpoint_not_found",
    "budget_not_found", "quota_policy_not_found", "fence_required",
}  # fmt: skip
# Routes beside the table that name nothing, or what no tenant may see.
NAMELESS = {
    ("GET", "/v1/store"),
    ("POST", "/v1/executions"),
    ("POST", "/v1/executions/bulk"),
    ("GET", "/v1/events/stream"),
}
STORE_ROUTES = {
    ("GET", "/metrics"), ("GET", "/v1/overview"), ("GET", "/v1/inbox"), ("POST", "/v1/work/claim"),
    ("GET", "/v1/work/wakeups"), ("GET", "/v1/engine/budget-wakeups"), ("GET", "/v1/engine/due-wakeups"),
}  # fmt: skip


@pytest.fixture
def topology() -> str:
    return "embedded"


@pytest.fixture
def tokens(tmp_path: File) -> TokenFile:
    file = TokenFile(tmp_path / "tokens.json")
    file.add("root", [Scope.ADMIN])
    file.add("own", [Scope.ADMIN], [OURS])
    return file


@pytest.fixture
async def http(backend: ValkeyBackend, tokens: TokenFile) -> AsyncIterator[httpx.AsyncClient]:
    async with guarded(backend, tokens, long_poll_ms=0) as client:
        client.headers.update(tokens.headers("own") | {"X-Request-Id": "same"})
        yield client


class Trial:
    """One place of one operation: what is answered there to an own, an unknown and a foreign id."""

    def __init__(self, http: httpx.AsyncClient, backend: ValkeyBackend, operation: Operation, place: Place) -> None:
        self._http = http
        self._backend = backend
        self._operation = operation
        self._place = place
        self.name = f"{operation.port} {place_name(place.path)}"

    async def own(self) -> httpx.Response:
        return await self._send(await self._world(), None)

    async def compare(self, theirs: World) -> None:
        world = await self._world()
        foreign = Call(self._operation, theirs, self._place).foreign()
        missed = await self._said(world, unknown(self._backend, self._place.kind, foreign))
        # Reads leave a world as it was, so that both see the same one; what writes gets one of its own.
        world = world if self._operation.method == "GET" else await self._world()
        before = await dump(self._backend)
        found = await self._said(world, foreign)
        is_refused = found[0] >= 400 or '"error":' in found[1]  # in place of an outcome of a batch
        self.check_store(theirs, before, await dump(self._backend), is_refused=is_refused)
        if (self._operation.port, place_name(self._place.path)) in MADE:
            assert is_refused, f"{self.name}: {found}"
        else:
            assert found == missed, self.name
        assert "secret of" not in found[1], self.name
        assert not any(each in found[1] for each in theirs.ids.values()), f"{self.name} tells {found[1]}"

    def check_store(self, theirs: World, before: Any, after: Any, *, is_refused: bool) -> None:
        if is_refused or self._operation.method == "GET":
            assert after == before, f"{self.name} wrote"
        else:
            assert theirs.part_of(after) == theirs.part_of(before), f"{self.name} changed what is theirs"

    async def _world(self) -> World:
        return await World(self._backend, OURS).fill()

    async def _send(self, world: World, value: str | None) -> httpx.Response:
        return await self._http.request(**Call(self._operation, world, self._place).sent(value))

    async def _said(self, world: World, value: str) -> tuple[int, str]:
        answer = await self._send(world, value)
        told = answer.text.replace(value, "<sent>").replace(value.rpartition(":")[2], "<sent>")
        return answer.status_code, world.named(told)


@pytest.mark.parametrize("operation", TENANTS, ids=lambda each: each.port)
async def test_a_foreign_id_is_as_good_as_one_that_does_not_exist(
    http: httpx.AsyncClient, backend: ValkeyBackend, operation: Operation
) -> None:
    theirs = await World(backend, THEIRS).fill()
    found = [each for each in places(request_type(operation)) if each.kind != "cursor"]
    assert found or operation.port.startswith("list_"), f"{operation} names nothing"
    for place in found:
        trial = Trial(http, backend, operation, place)
        own = await trial.own()
        code = own.json().get("code") if own.headers["content-type"] != "text/html" and own.text[:1] == "{" else None
        assert own.status_code < 500, f"{trial.name}: {own.text}"
        assert code not in NOT_TRIED, f"{trial.name}: {own.text}"
        await trial.compare(theirs)


CURSORS = [each for each in TENANTS if any(place.kind == "cursor" for place in places(request_type(each)))]


@pytest.mark.parametrize("operation", CURSORS, ids=lambda each: each.port)
async def test_a_cursor_of_somebody_else_leads_to_nothing_of_theirs(
    http: httpx.AsyncClient, backend: ValkeyBackend, tokens: TokenFile, operation: Operation
) -> None:
    theirs = await World(backend, THEIRS).fill()
    own = await World(backend, OURS).fill()
    (place,) = (each for each in places(request_type(operation)) if each.kind == "cursor")
    call = Call(operation, theirs, place).sent("x")
    call["params"] |= {"limit": 1}
    call["params"].pop("cursor")
    call["params"].pop("namespace", None)
    page = (await http.request(**call, headers=tokens.headers("root"))).json()
    cursor = page.get("next_cursor") or page.get("cursor")
    assert cursor, page
    before = await dump(backend)
    answer = await http.request(**Call(operation, own, place).sent(cursor))
    assert answer.status_code == 200, answer.text
    assert not any(each in answer.text for each in theirs.ids.values()), answer.text
    assert await dump(backend) == before


@pytest.mark.parametrize("operation", STORE, ids=lambda each: each.port)
async def test_what_concerns_the_store_is_forbidden_whatever_it_names(
    http: httpx.AsyncClient, backend: ValkeyBackend, operation: Operation
) -> None:
    theirs = await World(backend, THEIRS).fill()
    before = await dump(backend)
    answers = set()
    for value in [*theirs.ids.values(), *(unknown(backend, kind) for kind in ("ExecutionId", "BudgetId"))]:
        path = operation.path.format_map(dict.fromkeys(operation.parameters, value))
        answer = await http.request(operation.method, path, content=b"{}" if operation.has_body else None)
        answers.add((answer.status_code, answer.text.replace(value, "<sent>")))
    assert {status for status, _ in answers} == {403}
    assert len(answers) == 1, answers
    assert await dump(backend) == before


def beside_the_table(backend: ValkeyBackend) -> list[tuple[str, str]]:
    """Addresses that are not of the table: written by hand, so that nothing tells what they take."""
    table = {(each.method, each.path) for each in OPERATIONS}
    return [each for each in addresses(backend) if each not in OPEN and each not in table]


async def test_routes_beside_the_table_hide_what_is_foreign(http: httpx.AsyncClient, backend: ValkeyBackend) -> None:
    theirs = await World(backend, THEIRS).fill()
    before, tried = await dump(backend), 0
    for method, path in beside_the_table(backend):
        if (method, path) in NAMELESS:
            continue
        names = {"execution_id": "running", "flow_id": "flow", "waitpoint_id": "waitpoint"}
        kinds = {"execution_id": "ExecutionId", "flow_id": "FlowId", "waitpoint_id": "WaitpointId"}
        known = {name: theirs.ids[each] for name, each in names.items()}
        absent = {name: unknown(backend, kind) for name, kind in kinds.items()}
        said = []
        for ids in (known, absent):
            body = b'{"signal_name": "go"}' if method == "POST" else None
            answer = await http.request(method, filled(path, **ids), content=body)
            told = answer.text
            for name, value in ids.items():
                told = told.replace(value, f"<{name}>").replace(with_short_ids(value), f"<{name}>")
            said.append((answer.status_code, told))
        assert said[0] == said[1], f"{method} {path}"
        assert said[0][0] == (403 if (method, path) in STORE_ROUTES else 404), f"{method} {path}: {said[0]}"
        tried += 1
    assert tried
    assert await dump(backend) == before


async def test_the_count_of_what_is_tried(backend: ValkeyBackend, capsys: pytest.CaptureFixture[str]) -> None:
    inside, whole = (sum(len(list(places(request_type(each)))) for each in rows) for rows in (TENANTS, STORE))
    with capsys.disabled():
        print(
            f"\ntenants: {len(OPERATIONS)} operations, {inside + whole} places with an id: {len(TENANTS)} operations "
            f"with {inside} compared one by one, {len(STORE)} with {whole} for tokens of all namespaces; "
            f"{len(beside_the_table(backend))} routes beside the table"
        )
    assert len(TENANTS) > 60
    assert inside > 120
