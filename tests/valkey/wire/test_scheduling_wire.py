"""What is appended to create_execution, and the functions of lanes and queues, through plain FCALL."""

from __future__ import annotations

import pytest
import valkey

from tests.valkey.wire.wire import Execution, Reply


@pytest.fixture
def x(wire: valkey.Valkey) -> Execution:
    return Execution(wire)


def create(x: Execution, *appended: object, idem: str = "", priority: int = 0, payload: str = "in") -> Reply:
    """The 0.2.0 positions, the encoding, and then on_duplicate, concurrency_key and delay_ms."""
    filler = f"ff:noop:{x.tag}"
    keys = [x.core, *[filler] * 4, f"ff:idem:{x.tag}:ns:{idem}" if idem else filler, *[filler] * 2]
    return x.fcall("ff_create_execution", keys, x.id, "ns", x.lane, "kind", priority, "", "", payload, "", 60_000, "",
                   "", 7, "raw", *appended)  # fmt: skip


def configure(x: Execution, *settings: object) -> Reply:
    """max_concurrency, this partition's share of it, key_concurrency, ageing_ms_per_priority."""
    return x.fcall("ff_configure_lane", [f"ff:lane:{x.tag}:{x.lane}:config"], x.lane, *settings)


def partition(x: Execution, function: str, *args: object) -> Reply:
    return x.fcall(function, [f"ff:part:{x.tag}:events"], *args)


def test_an_empty_mode_is_the_usual_one(x: Execution) -> None:
    assert create(x, "", "", "", idem="k") == [1, "OK", x.id, "waiting"]
    assert create(Execution(x.client), "", "", "", idem="k") == [1, "DUPLICATE", x.id]


def test_the_modes_of_a_second_submit(x: Execution) -> None:
    create(x, idem="k")
    other = Execution(x.client)
    assert create(other, "reject", idem="k") == [0, "execution_already_exists", x.id]
    assert create(other, "replace_while_waiting", idem="k", payload="new") == [1, "REPLACED", x.id, "waiting"]
    assert x.client.get(x.exec("payload")) == b"new"
    assert create(other, "debounce", "", 60_000, idem="k") == [1, "REPLACED", x.id, "delayed"]
    assert int(x.field("delay_until") or 0) > int(x.field("created_at") or 0)
    assert x.client.exists(other.core) == 0


def test_a_concurrency_key_makes_the_second_wait(x: Execution) -> None:
    second = Execution(x.client)
    assert create(x, "", "c-42", priority=1) == [1, "OK", x.id, "waiting"]
    assert create(second, "", "c-42") == [1, "OK", second.id, "rate_limited"]
    assert second.field("blocking_reason") == "waiting_for_quota"
    assert x.client.zrange(f"ff:idx:{x.tag}:key_waiting:default:ns::c-42", 0, -1) == [second.id.encode()]
    x.grant()
    x.claim()
    assert set(x.client.smembers(f"ff:idx:{x.tag}:key_active:default:ns:c-42")) == {x.id.encode()}
    x.complete()
    assert second.field("public_state") == "waiting"
    assert x.client.keys(f"ff:idx:{x.tag}:key_*") == [f"ff:idx:{x.tag}:key_ready:default:ns::c-42".encode()]


def test_the_settings_of_a_lane(x: Execution) -> None:
    assert configure(x, 8, 2, 3, 1_000) == [1, "OK", "0"]
    config = f"ff:lane:{x.tag}:default:config"
    assert x.client.hgetall(config) == {
        b"max_concurrency": b"8", b"share": b"2", b"key_concurrency": b"3", b"ageing_ms_per_priority": b"1000",
    }  # fmt: skip
    create(x, priority=2)
    assert x.client.zscore(x.lane_idx("eligible"), x.id) == int(x.field("created_at") or 0) - 2_000
    assert configure(x) == [1, "OK", "1"], "what waits must be sorted anew"
    assert partition(x, "ff_settle_lane", "default", "", 100) == [1, "OK", "eligible 0"]
    assert partition(x, "ff_settle_lane", "default", "eligible 0", 100) == [1, "OK", ""]
    assert x.client.zscore(x.lane_idx("eligible"), x.id) == int(x.field("created_at") or 0) - 2 * 10**12
    assert x.client.exists(config) == 0


def test_a_full_lane_refuses_a_claim_and_says_why(x: Execution) -> None:
    x.create()
    x.grant()
    Execution(x.client).run()
    configure(x, 1, 1)
    assert x.claim() == [0, "concurrency_limit_exceeded", "max_concurrency of lane default"]


def test_a_grant_for_whoever_asks(x: Execution) -> None:
    ask = ("default", x.worker, x.instance, "", 5_000)
    assert partition(x, "ff_claim_for_worker", *ask) == [1, "OK", "", ""]
    x.create()
    status, word, execution_id, expires = partition(x, "ff_claim_for_worker", *ask)
    assert (status, word, execution_id) == (1, "OK", x.id)
    assert int(expires) > 0
    assert partition(x, "ff_claim_for_worker", *ask) == [1, "OK", "", ""]
    assert x.claim()[:2] == [1, "OK"]


def test_lanes_and_what_may_start_in_them(x: Execution) -> None:
    x.create()
    Execution(x.client, lane="other").create()
    assert partition(x, "ff_list_lanes", "", 10) == [1, "OK", ["default", "other"]]
    assert partition(x, "ff_list_lanes", "default", 10) == [1, "OK", ["other"]]
    assert partition(x, "ff_scan_eligible_executions", "default", 10) == [1, "OK", [x.id]]


def test_the_facts_of_an_explanation(x: Execution) -> None:
    x.create()
    status, word, core, facts = x.fcall("ff_explain_execution", [x.core], x.id)
    assert (status, word) == (1, "OK")
    assert dict(zip(core[::2], core[1::2], strict=True))["public_state"] == "waiting"
    told = dict(zip(facts[::2], facts[1::2], strict=True))
    assert (told["lane_state"], told["ahead"], told["first_in_queue"]) == ("active", "0", x.id)
