"""A record with a field that no fast path knows takes the general way everywhere, and ends up the same.

The library of this test counts the calls of each fast routine.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import valkey
from msgspec import msgpack

from flowfabric.backends.valkey.library.bundle import build, sources
from tests.servers import TestServer, start_standalone
from tests.valkey.lua.sources import FUNCTIONS, MODULES, code_of
from tests.valkey.wire.suspension_wire import Waiting
from tests.valkey.wire.wire import Execution, Reply, decode

# The fast routines, by the file and the function.
FAST = {
    "complete": ("record/terminal.lua", "local function succeed_plain"),
    "first claim": ("record/attempt.lua", "local function start_plain"),
    "promotion": ("flow/promotion.lua", "local function unblock_plain"),
    "direct start": ("flow/promotion.lua", "function M.start"),
    "hand-off": ("claim/parked_handoff.lua", "function M.give"),
}
COUNTS = "test:fast_paths"
INSTANCE = "w-1-instance"


def counting_library() -> str:
    lib = sources("lib")
    for name, (path, function) in FAST.items():
        counted = rf'\1 redis.call("HINCRBY", "{COUNTS}", "{name}", 1)'
        lib[path], found = re.subn(rf"({re.escape(function)}\([^)]*\))", counted, lib[path])
        assert found == 1, f"{path} has no {function}"
    return build(lib, sources("fn")).text


@pytest.fixture(scope="module")
def server() -> Iterator[TestServer]:
    with start_standalone() as server:
        server.call("FUNCTION", "LOAD", counting_library())
        yield server


@pytest.fixture
def client(server: TestServer) -> Iterator[valkey.Valkey]:
    client = valkey.Valkey(port=server.port)
    client.flushdb()
    yield client
    client.close()


def spoil(x: Execution) -> None:
    assert x.client.hset(x.core, "invented", "x") == 1


def spare(_: Execution) -> None:
    """Leave the record plain."""


Change = Callable[[Execution], None]


def uuid_of(x: Execution) -> str:
    return x.id.removeprefix(f"{x.tag}:")


@dataclass
class Worker:
    """A worker that ends, claims and parks with the batch functions."""

    client: valkey.Valkey
    tag: str = "{fp:7}"
    request: dict[str, Any] = field(default_factory=dict)

    def call(self, function: str, *args: Any) -> Reply:
        reply = decode(self.client.execute_command("FCALL", function, 1, f"ff:part:{self.tag}:x", *args))
        assert reply[:2] == [1, "OK"], reply
        return reply

    def submit(self, x: Execution, policy: str) -> None:
        item = [uuid_of(x), "ns", x.lane, "kind", 0, "", policy, 0, "", 0, "", 0, "json"]
        assert self.call("ff_submit_batch", msgpack.encode([item]), b"in")[2] == [1]

    def finish(self, *ended: Execution, claims: bool = False, **more: Any) -> list[str]:
        """End executions, perhaps claim; the ids that were claimed."""
        endings = [text for x in ended for text in (uuid_of(x), x.lease, "1", x.attempt, "json")]
        self.request = {
            "lane_id": "default", "worker_id": "w-1", "worker_instance_id": INSTANCE, "capabilities": "gpu",
            "lease_ttl_ms": 30_000, "attempt_timeout_ms": 0, "count": 4, "lease_ids": str(uuid.uuid4())[:24],
            "attempt_ids": str(uuid.uuid4())[:24], **more,
        }  # fmt: skip
        claim = msgpack.encode(self.request) if claims else ""
        reply = self.call("ff_finish_batch", msgpack.encode(endings), msgpack.encode([]), claim, *[b"out"] * len(ended))
        assert reply[2] == [1] * len(ended)
        return [row[1] for row in reply[4]]

    def flow(self, up: Execution, *downs: Execution) -> None:
        """A member, and others that wait for it, each with a higher priority than the one before."""
        flow_id, members = str(uuid.uuid4()), [uuid_of(x) for x in (up, *downs)]
        request = {
            "create": True, "commit": True, "flow_kind": "dag", "namespace": "default", "failure_policy": "continue",
            "parent_execution_id": "", "groups": [], "child_flows": [],
            "members": [[each, "", "default", "kind", number, "", "", 0, "", 0, "", 0, ""]
                        for number, each in enumerate(members)],
            "edges": [[str(uuid.uuid4()), members[0], each, "success_only", ""] for each in members[1:]],
        }  # fmt: skip
        core = f"ff:flow:{self.tag}:{flow_id}:core"
        args = (flow_id, msgpack.encode(request), *[b"in"] * len(members))
        reply = self.client.execute_command("FCALL", "ff_submit_flow", 1, core, *args)
        assert reply[0] == 1, reply


@dataclass
class Outcome:
    """What a way leaves: the fast routines that it called, and the record and the events of the execution."""

    fast: set[str]
    record: dict[str, str]
    events: list[str]


def outcome(x: Execution) -> Outcome:
    found: dict[str, str] = {name: decode(value) for name, value in decode_keys(x.client.hgetall(x.core)).items()}
    found.pop("invented", None)
    own = {name for name in found if name.endswith(("_at", "_id")) or name == "only_edge"}
    found.pop("last_mutation_at", None)  # a promotion that leaves no other time behind is stamped
    entries = [decode(fields[b"lines"]) for _, fields in x.client.xrange(f"ff:part:{x.tag}:events")]
    lines = [line for entry in entries for line in entry.split("\n") if x.id in line]
    return Outcome(
        set(decode_keys(x.client.hgetall(COUNTS))),
        {name: "" if name in own else value for name, value in found.items()},
        [line.replace(x.id, "") for line in lines],
    )


def decode_keys(found: dict[bytes, bytes]) -> dict[str, bytes]:
    return {name.decode(): value for name, value in found.items()}


def claimed(client: valkey.Valkey) -> Execution:
    x = Execution(client)
    assert x.create()[0] == 1
    assert x.grant_and_claim()[0] == 1
    return x


def complete(client: valkey.Valkey, change: Change) -> Execution:
    x = claimed(client)
    client.delete(COUNTS)
    change(x)
    assert x.complete()[0] == 1
    return x


def complete_in_a_batch(client: valkey.Valkey, change: Change) -> Execution:
    x = claimed(client)
    client.delete(COUNTS)
    change(x)
    Worker(client).finish(x)
    return x


def claim_with_a_grant(client: valkey.Valkey, change: Change) -> Execution:
    x = Execution(client)
    x.create()
    change(x)
    assert x.grant()[0] == 1
    assert x.claim()[0] == 1
    return x


def claim_in_one_step(client: valkey.Valkey, change: Change) -> Execution:
    x = Execution(client)
    x.create()
    change(x)
    assert x.grant_and_claim()[0] == 1
    return x


def claim_in_a_batch(client: valkey.Valkey, change: Change) -> Execution:
    x = Execution(client)
    x.create()
    change(x)
    assert Worker(client).finish(claims=True) == [x.id]
    return x


def chain(client: valkey.Valkey, change: Change) -> tuple[Worker, Execution, Execution]:
    """Two members, the first of which runs."""
    worker, up, down = Worker(client), Execution(client), Execution(client)
    worker.flow(up, down)
    assert up.grant_and_claim()[0] == 1
    client.delete(COUNTS)
    change(down)
    return worker, up, down


def promote(client: valkey.Valkey, change: Change) -> Execution:
    _, up, down = chain(client, change)
    assert up.complete()[0] == 1
    client.hdel(COUNTS, "complete")  # of its upstream, which is plain
    return down


def promote_in_a_batch(client: valkey.Valkey, change: Change) -> Execution:
    worker, up, down = chain(client, change)
    worker.finish(up)
    client.hdel(COUNTS, "complete")
    return down


def start_directly(client: valkey.Valkey, change: Change) -> Execution:
    worker, up, down = chain(client, change)
    assert worker.finish(up, claims=True) == [down.id]
    client.hdel(COUNTS, "complete")
    return down


def wake_for_a_parked_claim(client: valkey.Valkey, change: Change) -> Execution:
    x = Waiting(client).started()
    assert x.suspend()[0] == 1
    client.delete(COUNTS)
    change(x)
    with client.pubsub() as heard:
        worker = parked(client, heard)
        assert x.resume("operator", 0)[0] == 1
        assert x.id.encode() in handed(heard, worker)
    return x


def parked(client: valkey.Valkey, heard: Any) -> Worker:
    """A worker that listens and has parked a claim."""
    heard.subscribe(f"ff:hand:{INSTANCE}")
    assert heard.get_message(timeout=20)["type"] == "subscribe"
    worker = Worker(client)
    assert worker.finish(claims=True, park=4) == []
    return worker


def handed(heard: Any, worker: Worker) -> bytes:
    message: bytes = heard.get_message(timeout=20)["data"]
    assert message.startswith(worker.request["lease_ids"].encode())
    return message


WAYS: dict[str, tuple[Callable[[valkey.Valkey, Change], Execution], set[str]]] = {
    "complete": (complete, {"complete"}),
    "complete in a batch": (complete_in_a_batch, {"complete"}),
    "claim with a grant": (claim_with_a_grant, {"first claim"}),
    "claim in one step": (claim_in_one_step, {"first claim"}),
    "claim in a batch": (claim_in_a_batch, {"first claim"}),
    "promote": (promote, {"promotion"}),
    "promote in a batch": (promote_in_a_batch, {"promotion"}),
    "start directly": (start_directly, {"promotion", "direct start", "first claim"}),
    "wake for a parked claim": (wake_for_a_parked_claim, {"hand-off"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_unknown_field_takes_the_general_way_to_the_same_end(client: valkey.Valkey, way: str) -> None:
    take, fast = WAYS[way]
    plain = outcome(take(client, spare))
    client.flushdb()
    spoiled = outcome(take(client, spoil))
    assert plain.fast == fast
    assert spoiled.fast == set()
    assert spoiled.record == plain.record
    assert spoiled.events == plain.events


POLICIES = {
    "required_capabilities": '{"routing_requirements":{"required_capabilities":["gpu"]}}',
    "attempt_timeout_ms": '{"timeout_policy":{"attempt_timeout_ms":60000}}',
    "retention_ttl_ms": '{"stream_policy":{"retention_ttl_ms":60000}}',
}


@pytest.mark.parametrize("beside", ["", *POLICIES])
def test_a_new_execution_skips_the_queue_only_if_it_is_plain(client: valkey.Valkey, beside: str) -> None:
    x = Execution(client)
    with client.pubsub() as heard:
        worker = parked(client, heard)
        worker.submit(x, POLICIES.get(beside, ""))
        assert x.id.encode() in handed(heard, worker)
    assert ("hand-off" in outcome(x).fast) == (not beside)
    assert x.field("public_state") == "active"
    assert not beside or x.field(beside) is not None


def test_a_member_that_is_not_plain_does_not_lose_its_turn_to_a_plain_one(client: valkey.Valkey) -> None:
    worker, up, plain, better = Worker(client), Execution(client), Execution(client), Execution(client)
    worker.flow(up, plain, better)
    assert up.grant_and_claim()[0] == 1
    spoil(better)
    assert worker.finish(up, claims=True, count=1) == [better.id]
    assert plain.field("public_state") == "waiting"


def test_every_plain_field_is_a_documented_field_of_the_record() -> None:
    listed = re.search(r"local PLAIN = \{(.*?)\}", MODULES["record"], re.DOTALL)
    assert listed
    names = set(re.findall(r"(\w+) = true", listed.group(1)))
    documented = Path("docs/reference/keys.md").read_text()
    assert {name for name in names if f"`{name}`" not in documented} == set()
    assert len(names) > 20


def test_no_condition_lists_the_fields_that_a_record_must_not_have() -> None:
    listed = re.compile(r"(?:not x\.\w+\s+and\s+){2,}not x\.\w+")
    assert [name for name, source in {**FUNCTIONS, **MODULES}.items() if listed.search(code_of(source))] == []
