"""How replicas divide the work, without talking to each other."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from flowfabric.engine.ownership import Territory
from flowfabric.engine.shares import owner, share_of
from tests.engine_fakes import part

WORKS = [f"{{fp:{index}}}" for index in range(256)]
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
REPLICAS = st.lists(NAMES, min_size=1, max_size=12, unique=True)


@given(REPLICAS)
def test_every_piece_of_work_has_exactly_one_owner(replicas: list[str]) -> None:
    shares = [share_of(replica, WORKS, replicas) for replica in replicas]
    assert sorted(work for share in shares for work in share) == sorted(WORKS)


@given(REPLICAS, st.randoms())
def test_all_come_to_the_same_answer_in_whatever_order_they_know_each_other(
    replicas: list[str], random: object
) -> None:
    shuffled = list(replicas)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert [owner(work, shuffled) for work in WORKS] == [owner(work, replicas) for work in WORKS]


@given(REPLICAS, st.integers(0, 11))
def test_a_death_moves_the_share_of_the_dead_one_and_nothing_else(replicas: list[str], which: int) -> None:
    dead = replicas[which % len(replicas)]
    rest = [replica for replica in replicas if replica != dead]
    for work in WORKS:
        before = owner(work, replicas)
        assert owner(work, rest) == before if before != dead else owner(work, rest) != dead


@given(REPLICAS, NAMES)
def test_a_newcomer_takes_from_all_and_moves_nothing_between_them(replicas: list[str], newcomer: str) -> None:
    for work in WORKS:
        assert owner(work, [*replicas, newcomer]) in (owner(work, replicas), newcomer)


def test_shares_are_of_similar_size() -> None:
    for count in (2, 3, 5, 8):
        for deployment in range(20):
            replicas = [f"host-{deployment}:{number}" for number in range(count)]
            sizes = Counter(owner(work, replicas) for work in WORKS)
            assert len(sizes) == count
            assert max(sizes.values()) <= 2 * len(WORKS) / count


def test_the_division_is_the_same_in_every_process_and_release() -> None:
    assert [owner(work, ["a", "b", "c"]) for work in WORKS[:8]] == GOLDEN
    assert owner("{fp:1}", []) is None


GOLDEN = ["c", "c", "a", "b", "a", "b", "c", "a"]


def test_a_replica_that_is_not_listed_has_nothing() -> None:
    territory = Territory("me")
    territory.find([part(index) for index in range(8)])
    assert len(territory.own) == 8
    assert territory.hear(("you",))
    assert territory.own == ()
    assert not territory.has_duty("retention")


def test_a_territory_tells_when_other_partitions_are_its_own() -> None:
    territory, changes = Territory("me"), list[int]()
    territory.watch(lambda: changes.append(len(territory.own)))
    territory.find([part(1)])
    territory.find([part(1)])
    assert not territory.hear(("me",))
    territory.add(part(1))
    territory.add(part(2))
    assert territory.hear(("you",))
    assert changes == [1, 2, 0]


def test_each_duty_for_the_whole_store_has_one_replica() -> None:
    territories = [Territory(name) for name in ("a", "b", "c")]
    for territory in territories:
        territory.hear(("a", "b", "c"))
    for duty in ("retention", "worker_expiry"):
        assert sum(territory.has_duty(duty) for territory in territories) == 1
