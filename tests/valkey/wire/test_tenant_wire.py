"""Calls for the namespaces of a tenant, on the wire: each has its own scope, and what is foreign is not there."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
import valkey

from flowfabric.backends.valkey.library.bundle import bundle
from tests.valkey.wire.flow_wire import Flow, item
from tests.valkey.wire.wire import Execution, Reply, decode

OWN, FOREIGN = ("ns",), ("other",)


class Tenant:
    """A connection whose calls are those of a tenant; everything else of it is as it was."""

    def __init__(self, client: valkey.Valkey, *namespaces: str) -> None:
        self._client = client
        self._namespaces = namespaces

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def execute_command(self, _: str, function: str, count: int, *rest: object) -> Any:
        keys, args = rest[:count], rest[count:]
        scope = (len(self._namespaces), *self._namespaces)
        return self._client.execute_command("FCALL", "ff_within", count, *keys, *scope, function, *args)


def as_tenant(thing: Any, *namespaces: str) -> Any:
    """The same execution or flow, called for these namespaces."""
    seen = object.__new__(type(thing))
    vars(seen).update(vars(thing), client=Tenant(thing.client, *namespaces))
    return seen


@pytest.fixture
def x(wire: valkey.Valkey) -> Execution:
    return Execution(wire)


def describe(x: Execution) -> Reply:
    return x.fcall("ff_describe_execution", [x.core], x.id)


def test_an_execution_of_another_namespace_is_not_there(x: Execution) -> None:
    x.run()
    foreign = as_tenant(x, *FOREIGN)
    unknown = as_tenant(Execution(x.client), *FOREIGN)
    assert foreign.complete() == unknown.complete() == [0, "execution_not_found"]
    assert foreign.cancel() == unknown.cancel() == [0, "execution_not_found"]
    assert describe(foreign) == describe(unknown) == [0, "execution_not_found"]
    assert as_tenant(x, *OWN).complete()[:2] == [1, "OK"]


def test_a_tenant_may_have_several_namespaces_or_none(x: Execution) -> None:
    x.create()
    assert describe(as_tenant(x, "other", "ns"))[:2] == [1, "OK"]
    assert describe(as_tenant(x)) == [0, "execution_not_found"]


def test_a_scope_ends_with_its_call(x: Execution) -> None:
    x.create()
    describe(as_tenant(x, *FOREIGN))
    assert describe(x)[:2] == [1, "OK"]


def test_a_fault_leaves_no_scope_behind(x: Execution) -> None:
    x.create()
    broken = Execution(x.client)
    broken.create()
    x.client.hset(broken.core, "lifecycle_phase", "no such phase")
    with pytest.raises(valkey.ResponseError):
        as_tenant(broken, *OWN).cancel()
    other = Execution(x.client)
    x.client.hset(x.core, "namespace", "another")  # out of the scope that the broken call had
    assert describe(x)[:2] == [1, "OK"]
    assert other.create()[:2] == [1, "OK"]
    assert describe(as_tenant(x, "another"))[:2] == [1, "OK"]


def test_a_call_without_a_scope_is_what_it_was(x: Execution) -> None:
    describe(as_tenant(x, *FOREIGN))
    x.run()
    assert x.complete()[:2] == [1, "OK"]


def test_a_refused_tenant_writes_nothing(x: Execution) -> None:
    x.run()
    keys = sorted(x.client.scan_iter(match="*"))
    before = [x.client.dump(key) for key in keys]
    foreign = as_tenant(x, *FOREIGN)
    foreign.complete()
    foreign.fcall("ff_expire_execution", [x.core], x.id, "execution_deadline")
    foreign.fcall("ff_expire_suspension", [x.core], x.id)
    assert foreign.create() == [0, "invalid_input", "namespace: expected one of the caller's, got 'ns'"]
    assert sorted(x.client.scan_iter(match="*")) == keys
    assert [x.client.dump(key) for key in keys] == before


def test_the_id_of_a_foreign_execution_cannot_be_used_again(x: Execution) -> None:
    x.create()
    x.client.hset(x.core, "namespace", "other")
    assert as_tenant(x, *OWN).create()[:2] == [0, "invalid_input"]
    assert x.create() == [1, "DUPLICATE", x.id]


def test_a_flow_of_another_namespace_is_not_there(wire: valkey.Valkey) -> None:
    f = Flow(wire)
    f.submit(members=[item()])
    foreign = as_tenant(f, *FOREIGN)
    assert foreign.cancel() == [0, "flow_not_found"]
    assert foreign.submit(create=False, members=[[str(uuid.uuid4()), "other", "default", "kind", ""]]) == [
        0, "flow_not_found",
    ]  # fmt: skip
    assert foreign.submit(namespace="other")[:2] == [0, "invalid_input"]
    assert foreign.create()[:2] == [0, "invalid_input"]
    assert as_tenant(f, *OWN).cancel()[:2] == [1, "OK"]


def test_members_are_of_the_namespace_of_their_flow(wire: valkey.Valkey) -> None:
    f = Flow(wire)
    refusal = [0, "invalid_input", "namespace: expected ns, as of the flow, got 'other'"]
    assert f.submit(members=[[str(uuid.uuid4()), "other", "default", "kind", ""]]) == refusal
    assert wire.exists(f.core) == 0
    f.submit(members=[item()])
    assert f.submit(create=False, members=[[str(uuid.uuid4()), "other", "default", "kind", ""]]) == refusal


def test_an_execution_joins_no_flow_of_another_namespace(x: Execution) -> None:
    f = Flow(x.client)
    f.create()
    x.create()
    x.client.hset(x.core, "namespace", "other")
    assert f.add(x) == [0, "invalid_input", "namespace: expected ns, as of the flow, got 'other'"]


def within(client: valkey.Valkey, *words: object, function: str = "ff_within", keys: tuple[str, ...] = ()) -> Reply:
    return decode(client.execute_command("FCALL", function, len(keys), *keys, *words))


@pytest.mark.parametrize("words", [(), ("x",), (1,), (1, "ns"), (2, "ns", "ff_version"), (-1, "ff_version")])
def test_a_scope_that_cannot_be_read_is_refused(wire: valkey.Valkey, words: tuple[object, ...]) -> None:
    assert within(wire, *words)[:2] == [0, "invalid_input"]


@pytest.mark.parametrize("function", ["ff_within", "ff_trim_executions", "ff_claim_batch", "nothing"])
def test_only_functions_that_keep_to_namespaces_are_called(wire: valkey.Valkey, function: str) -> None:
    key = "ff:part:{fp:7}:events"
    assert within(wire, 1, "ns", function, keys=(key,))[:2] == [0, "invalid_input"]


def test_a_function_that_writes_is_not_called_by_one_that_does_not(x: Execution) -> None:
    x.create()
    with pytest.raises(valkey.ResponseError, match="read-only"):
        within(x.client, 1, "ns", "ff_cancel_execution", x.id, "enough", "operator_override", keys=(x.core,) * 21,
               function="ff_look_within")  # fmt: skip


def test_every_function_of_one_execution_or_flow_keeps_to_namespaces() -> None:
    functions = bundle().functions.values()
    named = {each.operation for each in functions if each.keys and each.keys[0].name in ("core", "flow_core")}
    assert named == {each.operation for each in functions if each.subject} | {
        "create_execution", "create_flow", "submit_flow",
    }  # fmt: skip
    assert all(each.is_for_tenants for each in functions if each.operation in named)
