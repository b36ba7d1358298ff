"""Streams through plain FCALL, and through the stream commands that other programs use beside it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import valkey

from tests.valkey.wire.stream_wire import append, fields_of, payloads, read, read_summary, stream
from tests.valkey.wire.wire import Execution


@pytest.fixture
def x(wire: valkey.Valkey) -> Execution:
    return Execution(wire).run()


def append_many(x: Execution, frames: list[str], first: int = 0, heads: object = (["token", "utf8"],)) -> Any:
    group = [x.id.split(":")[-1], "0", x.lease, "1", x.attempt, first, 0, 0, 65_536, heads, [1] * len(frames)]
    (outcome,) = x.fcall("ff_append_frames", [f"ff:part:{x.tag}:events"], msgspec.msgpack.encode([group]), *frames)[2]
    return outcome


def test_the_first_frame_makes_the_stream(x: Execution) -> None:
    assert x.client.keys("ff:stream:*") == []
    status, word, entry_id, count, version = append(x, b"\x00\xff", ts=5)
    assert (status, word, count, version) == (1, "OK", "1", "")
    ((found, fields),) = x.client.xrange(stream(x))
    assert found.decode() == entry_id
    assert fields == {
        b"frame_type": b"token", b"ts": b"5", b"payload": b"\x00\xff", b"encoding": b"utf8", b"source": b"worker",
        b"correlation_id": b"corr",
    }  # fmt: skip
    meta = x.client.hgetall(x.smeta(0))
    assert (meta[b"frame_count"], meta[b"total_bytes"]) == (b"1", b"2")
    assert meta[b"last_sequence"].decode() == entry_id
    assert x.field("stream_attempt_index") == "0"


def test_the_shortest_call_of_0_2_0(x: Execution) -> None:
    keys = [x.core, stream(x), x.smeta(0)]
    assert x.fcall("ff_append_frame", keys, x.id, 0, x.lease, 1, "token", "", "hi")[:2] == [1, "OK"]
    (entry,) = read(x)[2]
    assert (fields_of(entry)["encoding"], fields_of(entry)["source"]) == ("utf8", "worker")


def test_the_key_of_the_summary_may_be_given_as_a_fourth_one(x: Execution) -> None:
    keys = [x.core, stream(x), x.smeta(0), x.att(0, ":summary")]
    args = (x.id, 0, x.lease, 1, "patch", "", '{"a":1}', "json", "", "worker", 0, x.attempt, 65_536, "summary")
    assert x.fcall("ff_append_frame", keys, *args)[-1] == "1"
    assert read_summary(x)[:5] == [1, "OK", '{"a":1}', "1", "json-merge-patch"]


def test_a_frame_may_name_the_run_of_a_step(x: Execution) -> None:
    append(x, "alone", "durable", "", 0, 64, 16_384, "0.2", "", 0, "1.1")
    head = ["token", "utf8", "", "", "", 0, "durable", 0, 64, 16_384, 0.2, "1.2"]
    assert of_group(x, first_number=0, heads=[head])[:2] == [1, "OK"]
    assert [fields_of(entry)["step_run"] for entry in read(x)[2]] == ["1.1", "1.2"]


def test_marks_are_frames_like_others(x: Execution) -> None:
    append(x, "a", "durable", "", 0, 64, 16_384, "0.2", "", 0, "1.1")
    append(x, "b")
    append(x, "", frame_type="ff:pass")
    assert payloads(read(x)) == ["a", "b", ""]
    meta = x.client.hgetall(x.smeta(0))
    assert (meta[b"step_frames"], meta[b"void_frames"]) == (b"1", b"1")


def test_pages_and_ranges(x: Execution) -> None:
    ids = [append(x, str(at))[2] for at in range(5)]
    assert payloads(read(x)) == ["0", "1", "2", "3", "4"]
    assert payloads(read(x, "-", "+", 2)) == ["0", "1"]
    assert payloads(read(x, ids[1], ids[3], 100)) == ["1", "2", "3"]
    assert payloads(read(x, f"({ids[3]}", "+", 100)) == ["4"]
    assert read(x, "-", "+", 2)[3:] == ["", "", ids[1], "1", "stream"]


def test_a_missing_stream_is_empty(x: Execution) -> None:
    assert read(x) == [1, "OK", [], "", "", "", "0", "execution"]
    assert read(Execution(x.client)) == [1, "OK", [], "", "", "", "0", "nothing"]


def test_the_end_closes_the_meta_hash_and_adds_nothing_to_the_stream(x: Execution) -> None:
    last = append(x)[2]
    x.complete()
    closed_at, reason = x.client.hmget(x.smeta(0), "closed_at", "closed_reason")
    assert (int(closed_at) > 0, reason) == (True, b"attempt_success")
    assert x.client.xread({stream(x): last}) == [], "a plain reader sees frames alone"
    assert [entry[b"payload"] for _, entry in x.client.xrange(stream(x))] == [b"hi"]
    reply = read(x)
    assert payloads(reply) == ["hi"]
    assert reply[3:5] == [closed_at.decode(), "attempt_success"]


def test_an_end_without_frames_writes_no_key(x: Execution) -> None:
    x.complete()
    assert x.client.keys("ff:stream:*") == []
    assert read(x)[4:] == ["attempt_success", "", "0", "execution"]


def test_a_length_that_is_given_is_kept_exactly(x: Execution) -> None:
    for at in range(10):
        append(x, str(at), maxlen=4)
    assert payloads(read(x)) == ["6", "7", "8", "9"]
    assert append(x, "10", maxlen=4)[3] == "11", "the count is of all frames ever"


def test_summaries(x: Execution) -> None:
    assert read_summary(x) == [1, "OK", "", "0", "", "0", "0"]
    assert append(x, '{"a":{"b":[]},"n":123456789012345678901}', "summary", "json-merge-patch")[-1] == "1"
    assert append(x, '{"a":{"b":{},"c":"__ff_null__"},"d":null}', "summary")[-1] == "2"
    status, _, document, version, kind, updated, first = read_summary(x)
    assert (status, version, kind) == (1, "2", "json-merge-patch")
    assert json.loads(document) == {"a": {"b": {}, "c": None}, "n": 123456789012345678901}
    assert int(updated) >= int(first) > 0
    assert [fields_of(entry)["summary_version"] for entry in read(x)[2]] == ["1", "2"]


def test_best_effort_frames_and_readers_who_do_not_want_them(x: Execution) -> None:
    append(x, "live", "best_effort", "", 60_000)
    assert 0 < x.client.pttl(stream(x)) <= 120_000
    append(x, "kept")
    assert x.client.pttl(stream(x)) == -1
    append(x, "live", "best_effort", "", 60_000)
    assert x.client.pttl(stream(x)) == -1
    assert payloads(read(x)) == ["live", "kept", "live"]
    assert payloads(read(x, "-", "+", 100, "exclude_best_effort")) == ["kept"]
    assert payloads(read(x, "-", "+", 1, "exclude_best_effort")) == ["kept"], "a page is filled, whatever is left out"
    (live, *_) = read(x)[2]
    assert (fields_of(live)["mode"], fields_of(live)["ttl_ms"]) == ("best_effort", "60000")


def test_many_frames_in_one_call(x: Execution) -> None:
    status, word, count, version, ids = append_many(x, ["a", "b", "c"])
    assert (status, word, count, version, len(ids)) == (1, "OK", "3", "", 3)
    assert append_many(x, ["a", "b", "c"]) == [1, "DUPLICATE", "3", "", []]
    assert append_many(x, ["e"], first=4) == [0, "frames_out_of_order", "3"]
    assert append_many(x, ["c", "d"], first=2)[2:4] == ["4", ""], "what is there is not added again"
    assert payloads(read(x)) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "heads", [[7], [[]], [[7]], [["token", 7]], [["t", "", "", "", "", -1]], [["t"] * 12], [["t", "x" * 65]]]
)
def test_a_bad_head_is_refused_with_its_group(x: Execution, heads: object) -> None:
    assert append_many(x, ["a"], heads=heads)[:2] == [0, "invalid_input"]
    assert x.client.keys("ff:stream:*") == []


def test_how_a_stream_stands(x: Execution) -> None:
    def describe() -> Any:
        return x.fcall("ff_describe_stream", [x.core], x.id, 0)

    assert describe() == [1, "OK", [], "0", "", "", "", "", "0"]
    first, last = append(x)[2], append(x)[2]
    assert describe()[3:] == ["2", first, last, "", "", "0"]
    x.complete()
    assert describe()[3:6] == ["2", first, last]
    assert describe()[7] == "attempt_success"


def of_group(x: Execution, **changes: object) -> Any:
    """The outcome of one group; fields are named as the function names them."""
    fields: dict[str, object] = {
        "uuid": x.id.split(":")[-1], "attempt_index": "0", "lease_id": x.lease, "lease_epoch": "1",
        "attempt_id": x.attempt, "first_number": 2, "retention_maxlen": 0, "retention_ms": 0,
        "max_payload_bytes": 65_536, "heads": (["token", "utf8"],), "picks": [1], "payload": "more", **changes,
    }  # fmt: skip
    *group, payload = fields.values()
    (outcome,) = x.fcall("ff_append_frames", [f"ff:part:{x.tag}:events"], msgspec.msgpack.encode([group]), payload)[2]
    return outcome


SUMMARY = (["state", "json", "", "", "", 0, "summary"],)


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("stream_closed", {"uuid": "00000000-0000-4000-8000-000000000000"}),
        ("stale_owner_cannot_append", {"lease_id": "another"}),
        ("stale_owner_cannot_append", {"lease_epoch": "2"}),
        ("stale_owner_cannot_append", {"attempt_id": "another"}),
        ("stale_owner_cannot_append", {"attempt_index": "1"}),
        ("frames_out_of_order", {"first_number": 3}),
        ("frames_out_of_order", {"first_number": 0}),
        ("retention_limit_exceeded", {"payload": "x" * 65_537}),
        ("invalid_input", {"first_number": "two"}),
        ("invalid_input", {"heads": ([""],)}),
        ("invalid_input", {"heads": (["token", "utf8", "", "", "", 0, "loud"],)}),
        ("invalid_input", {"heads": SUMMARY, "payload": "[]"}),
    ],
)
def test_a_refused_group_writes_nothing(x: Execution, code: str, changes: dict[str, object]) -> None:
    append_many(x, ["a", "b"])
    before = {key: x.client.dump(key) for key in x.client.keys("*")}
    assert of_group(x, **changes)[:2] == [0, code]
    assert {key: x.client.dump(key) for key in x.client.keys("*")} == before


def test_a_repeated_group_writes_nothing(x: Execution) -> None:
    append_many(x, ["a", "b"])
    before = {key: x.client.dump(key) for key in x.client.keys("*")}
    assert append_many(x, ["a", "b"])[:2] == [1, "DUPLICATE"]
    assert {key: x.client.dump(key) for key in x.client.keys("*")} == before
