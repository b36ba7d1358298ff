"""How much may be said at one waitpoint: signals and bytes are bounded by every door, and names where a link asks."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import valkey

from tests.valkey.refusals.test_refusals_write_nothing import dump
from tests.valkey.wire.suspension_wire import ANY, Waiting, all_of, composite, count, named, single
from tests.valkey.wire.wire import Reply

BIG = b"x" * 262_144
NOT_WAITED_FOR = "nobody-waits-for-this"
MEGABYTE = 1_000_000


@pytest.fixture
def x(wire: valkey.Valkey) -> Waiting:
    return Waiting(wire).started()


def waits(x: Waiting) -> None:
    x.suspend(named("approval", "second", mode="all"))


def is_pending(x: Waiting) -> None:
    x.pending()


def votes(x: Waiting) -> None:
    tree = all_of(count(3, "DistinctSignals", ["jury"], "vote"), single("jury", "verdict"))
    assert x.suspend(composite(tree), key="jury")[0] == 1


def sent(x: Waiting, name: str, payload: bytes) -> Reply:
    """Without a token, as callers of the store itself send it."""
    signal = f"{name}-{x.client.zcard(x.exec('signals'))}"
    return x.fcall("ff_signal_execution", [x.core], x.id, signal, name, "", payload)


Door = tuple[Callable[[Waiting], None], Callable[[Waiting, bytes], Reply]]
DOORS: dict[str, Door] = {
    "deliver": (waits, lambda x, payload: x.deliver(name=NOT_WAITED_FOR, payload=payload)),
    "deliver, a name that has come": (waits, lambda x, payload: x.deliver(name="approval", payload=payload)),
    "deliver, more votes than asked for": (votes, lambda x, payload: x.deliver(name="vote", payload=payload)),
    "deliver, not in the tree": (votes, lambda x, payload: x.deliver(name=NOT_WAITED_FOR, payload=payload)),
    "deliver to a pending one": (is_pending, lambda x, payload: x.deliver("buffer", name="a", payload=payload)),
    "buffer": (is_pending, lambda x, payload: x.buffer(name=NOT_WAITED_FOR, payload=payload)),
    "buffer at an active one": (waits, lambda x, payload: x.buffer(name=NOT_WAITED_FOR, payload=payload)),
    "signal an execution": (is_pending, lambda x, payload: sent(x, "a", payload)),
    "signal one that has heard it": (waits, lambda x, payload: sent(x, "approval", payload)),
}


def flood(x: Waiting, door: str, payload: bytes, times: int) -> int:
    """Say it so many times; how often it was taken, up to the first refusal, which is every later one's."""
    opened, say = DOORS[door]
    opened(x)
    replies = [say(x, payload) for _ in range(times)]
    taken = next((at for at, reply in enumerate(replies) if reply[0] == 0), times)
    assert {tuple(each) for each in replies[taken:]} <= {(0, "signal_limit_exceeded", "1000", "waitpoint", "819200")}
    return taken


@pytest.mark.parametrize("door", DOORS)
def test_four_hundred_signals_of_250_kb_leave_less_than_a_megabyte(x: Waiting, door: str) -> None:
    before = x.client.info("memory")["used_memory_dataset"]
    assert flood(x, door, BIG[:250_000], 400) == 3
    assert x.client.info("memory")["used_memory_dataset"] - before < 1.1 * MEGABYTE
    kept = sum(x.client.strlen(key) for key in x.client.keys("ff:signal:*:payload"))
    assert kept == 3 * 250_000


@pytest.mark.parametrize("door", DOORS)
def test_a_thousand_signals_are_the_most_however_small(x: Waiting, door: str) -> None:
    assert flood(x, door, b"", 1_010) == 1_000


def test_what_hangs_on_a_signal_is_counted_with_it(x: Waiting) -> None:
    waits(x)
    replies = [x.deliver(name="n" * 250, source="s" * 250, idem=f"{at:0250}", payload=b"") for at in range(700)]
    taken = [reply[0] for reply in replies].count(1)
    assert taken < 700
    assert taken * (512 + 1_000) < 819_200 + 2_000


@pytest.mark.parametrize("door", DOORS)
def test_a_refused_signal_writes_nothing(x: Waiting, door: str) -> None:
    flood(x, door, BIG, 3)
    before = dump(x.client)
    assert DOORS[door][1](x, BIG)[1] == "signal_limit_exceeded"
    assert dump(x.client) == before


def test_a_full_waitpoint_leaves_the_next_one_its_room(x: Waiting) -> None:
    flood(x, "deliver", BIG, 4)
    x.resume("operator")
    x.go_on()
    x.suspend(named("approval"))
    assert x.deliver(payload=BIG)[3] == "resume_condition_satisfied"


@pytest.mark.parametrize(
    ("policy", "taken"),
    [
        ({"max_signals_per_waitpoint": 2}, 2),
        ({"max_signal_bytes_per_waitpoint": 300_000}, 1),
        ({"max_signal_bytes_per_waitpoint": 100_000}, 0),
        ({"max_signal_bytes_per_waitpoint": 0}, 10),
        ({"max_signal_bytes_per_waitpoint": 10_000_000}, 10),
    ],
)
def test_the_policy_sets_the_room(x: Waiting, policy: dict[str, int], taken: int) -> None:
    x.client.set(x.exec("policy"), json.dumps(policy))
    waits(x)
    replies = [x.deliver(name="approval", payload=BIG) for _ in range(10)]
    assert [reply[0] for reply in replies].count(1) == taken


def test_a_condition_that_needs_more_signals_than_there_is_room_for_is_refused(x: Waiting) -> None:
    tree = composite(count(1_001, "DistinctSignals", ["jury"], "vote"))
    assert x.suspend(tree, key="jury")[:2] == [0, "invalid_input"]
    x.client.set(x.exec("policy"), '{"max_signals_per_waitpoint":2000}')
    assert x.suspend(tree, key="jury")[0] == 1


REFUSE = ("buffer", "refuse")


def test_a_link_takes_only_the_names_that_are_waited_for(x: Waiting) -> None:
    waits(x)
    before = dump(x.client)
    assert x.deliver(*REFUSE, name=NOT_WAITED_FOR) == [
        0, "invalid_input",
        f"signal_name: expected one of the names this waitpoint waits for (approval, second), got '{NOT_WAITED_FOR}'",
    ]  # fmt: skip
    assert dump(x.client) == before
    assert x.deliver(*REFUSE, name="second")[0] == 1
    assert x.deliver(*REFUSE, name="approval")[3] == "resume_condition_satisfied"


def test_a_link_of_one_waitpoint_takes_no_names_of_another(x: Waiting) -> None:
    tree = all_of(single("ada", "approve"), single("linus", "merge"))
    extra = ("", "", 1, "wp-2", "linus")
    x.suspend(composite(tree), key="ada", extra=extra)
    assert x.deliver(*REFUSE, name="merge")[1] == "invalid_input"
    assert x.deliver(*REFUSE, name="approve")[0] == 1


def test_a_link_takes_any_name_where_any_is_waited_for(x: Waiting) -> None:
    x.suspend(ANY)
    assert x.deliver(*REFUSE, name=NOT_WAITED_FOR)[3] == "resume_condition_satisfied"


def test_a_wrong_token_is_refused_before_a_wrong_name(x: Waiting) -> None:
    waits(x)
    assert x.deliver(*REFUSE, name=NOT_WAITED_FOR, token="k1:" + "0" * 40) == [0, "invalid_token"]
