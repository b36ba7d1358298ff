"""The secrets that sign waitpoint tokens: seeding, rotation with grace, and what is never collected."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Any

import pytest
import valkey
from hypothesis import given
from hypothesis import strategies as st

from tests.valkey.lua.test_modules import call  # noqa: F401  (a fixture)
from tests.valkey.wire.suspension_wire import SECRET, Waiting, named

A, B, C, D = "aa" * 32, "bb" * 32, "cc" * 32, "dd" * 32


@pytest.fixture
def x(wire: valkey.Valkey) -> Waiting:
    return Waiting(wire)


def test_a_partition_is_seeded_once(x: Waiting) -> None:
    assert x.seed("k1", A) == [1, "OK", "seeded", "k1", "1"]
    assert x.seed("k1", A.upper()) == [1, "OK", "already_seeded", "k1", "1"]
    assert x.seed("k1", B) == [1, "OK", "already_seeded", "k1", "0"]
    assert x.seed("k1", A, "sha256") == [1, "OK", "already_seeded", "k1", "0"]
    assert x.seed("k2", A) == [1, "OK", "already_seeded", "k1", "0"]
    assert x.kids() == [1, "OK", "k1", "0"]
    assert x.kids("algorithms") == [1, "OK", "k1", "0", "sha1"]
    x.rotate("k2", B)
    assert x.seed("k1", A) == [1, "OK", "already_seeded", "k2", "1"]


def test_rotation_keeps_the_old_kid_for_its_grace(x: Waiting) -> None:
    assert x.kids() == [1, "OK", "", "0"]
    assert x.rotate("k1", A) == [1, "OK", "rotated", "", "k1", "0"]
    assert x.rotate("k2", B, 60_000, "sha256") == [1, "OK", "rotated", "k1", "k2", "0"]
    assert x.rotate("k2", B, 60_000, "sha256") == [1, "OK", "noop", "k2"]
    listed = x.kids()
    assert (listed[:5], len(listed)) == ([1, "OK", "k2", "1", "k1"], 6), "pairs of kid and expiry, to the end"
    assert int(listed[5]) > x.client.time()[0] * 1000
    assert x.kids("algorithms") == [1, "OK", "k2", "1", "sha256", "k1", listed[5], "sha1"]


def in_grace(x: Waiting) -> list[tuple[str, str]]:
    """The waitpoints and tokens of secrets a, b and c: c signs, the others are in their grace."""
    tokens: list[tuple[str, str]] = []
    for kid, secret in (("a", A), ("b", B), ("c", C)):
        x.rotate(kid, secret)
        if not tokens:
            x.run()
        x.pending()
        tokens.append((x.waitpoint, x.token))
    return tokens


def test_rapid_rotation_keeps_every_token_in_its_grace(x: Waiting) -> None:
    tokens = in_grace(x)
    assert [token[:2] for _, token in tokens] == ["a:", "b:", "c:"]
    for waitpoint, token in tokens:
        assert x.buffer(waitpoint=waitpoint, token=token)[0] == 1


def test_a_rotation_may_end_every_grace_at_once(x: Waiting) -> None:
    tokens = in_grace(x)
    assert x.rotate("d", D, 0, "sha1", "1") == [1, "OK", "rotated", "c", "d", "0"]
    assert x.kids() == [1, "OK", "d", "0"]
    for waitpoint, token in tokens:
        assert x.buffer(waitpoint=waitpoint, token=token) == [0, "token_expired"]
    assert x.rotate("c", C) == [0, "rotation_conflict", "c"]
    assert x.rotate("e", A) == [1, "OK", "rotated", "d", "e", "3"]


def test_a_repeated_rotation_ends_graces_when_it_is_asked_to(x: Waiting) -> None:
    (first, second, (waitpoint, token)) = in_grace(x)
    assert x.rotate("c", C) == [1, "OK", "noop", "c"]
    assert x.kids()[3] == "2"
    for _ in range(2):
        assert x.rotate("c", C, 0, "sha1", "1") == [1, "OK", "noop", "c"]
    assert x.kids() == [1, "OK", "c", "0"]
    for old_waitpoint, old in (first, second):
        assert x.buffer(waitpoint=old_waitpoint, token=old) == [0, "token_expired"]
    assert x.buffer(waitpoint=waitpoint, token=token)[0] == 1


def test_a_token_dies_with_its_kids_grace(x: Waiting) -> None:
    x.rotate("a", A)
    x.run()
    x.suspend(named("approval"))
    x.rotate("b", B, 0)
    while x.kids()[3] != "0":
        pass
    assert x.deliver() == [0, "token_expired"]
    assert x.deliver(token=x.token[:-1] + "-") == [0, "invalid_token"], "only who has the token learns of it"


def test_a_token_counts_under_its_own_kid_alone(x: Waiting) -> None:
    x.rotate("a", A)
    x.run()
    x.suspend(named("approval"))
    x.rotate("b", A)
    assert x.deliver(token="b" + x.token[1:]) == [0, "invalid_token"]
    assert x.deliver()[3] == "resume_condition_satisfied"


def test_what_a_kid_signed_before_does_not_count_when_its_name_is_used_again(x: Waiting) -> None:
    x.rotate("a", A, 0)
    x.run()
    x.suspend(named("approval"))
    x.rotate("b", B)
    x.client.hset(x.secrets, "expires_at:a", "1")
    x.rotate("c", C)
    assert x.rotate("a", C) == [1, "OK", "rotated", "c", "a", "0"]
    assert x.deliver() == [0, "invalid_token"]


@pytest.mark.parametrize("secret", [A, C])
def test_a_kid_that_is_known_and_not_current_is_refused(x: Waiting, secret: str) -> None:
    """D9: the original overwrote its secret, and the next rotation deleted the live one."""
    x.rotate("a", A)
    x.rotate("b", B)
    assert x.rotate("a", secret) == [0, "rotation_conflict", "a"]
    assert x.rotate("b", C) == [0, "rotation_conflict", "b"]
    assert x.kids()[2] == "b"


def test_the_live_secret_is_never_collected(x: Waiting) -> None:
    """D9: with a stray expiry on the current kid the original deleted its secret."""
    x.rotate("a", A, 0)
    x.client.hset(x.secrets, "expires_at:a", 1)
    x.run()
    x.pending()
    waitpoint, token = x.waitpoint, x.token
    assert x.buffer()[0] == 1
    assert x.rotate("b", B) == [1, "OK", "rotated", "a", "b", "0"]
    assert x.buffer(waitpoint=waitpoint, token=token)[0] == 1


def test_secrets_whose_grace_is_over_are_collected(x: Waiting) -> None:
    x.rotate("a", A)
    x.rotate("b", B, 60_000, "sha256")
    x.client.hset(x.secrets, "expires_at:a", 1)
    assert x.rotate("c", C) == [1, "OK", "rotated", "b", "c", "1"]
    names = {name.decode() for name in x.client.hkeys(x.secrets)}
    assert names == {"current_kid", "previous_kid", "previous_expires_at", "secret:b", "algorithm:b", "expires_at:b",
                     "secret:c"}  # fmt: skip


def test_a_current_kid_without_its_secret_is_repaired(x: Waiting) -> None:
    x.rotate("a", A)
    x.client.hdel(x.secrets, "secret:a")
    assert x.rotate("a", A) == [1, "OK", "noop", "a"]
    assert x.client.hget(x.secrets, "secret:a") == A.encode()


def test_the_documented_vector(call: Callable[..., Any]) -> None:  # noqa: F811
    digest = call("hmac.hex", "sha1", "00" * 32, "wp|wpk:1|1700000000000")
    assert digest == "e4d057e304a36f22fceb2d98ba780b086ef85242"


@pytest.fixture
def digest(call: Callable[..., Any]) -> Callable[..., str]:  # noqa: F811
    return lambda *args: call("hmac.hex", *args)


@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
@pytest.mark.parametrize("key_bytes", [1, 20, 32, 63, 64, 65, 128, 200])
def test_digests_are_those_of_the_standard_library(digest: Callable[..., str], algorithm: str, key_bytes: int) -> None:
    key = hashlib.shake_128(bytes([key_bytes])).digest(key_bytes)
    for length in [*range(130), 1000, 5000]:
        message = hashlib.shake_128(b"message").hexdigest(length)[:length]
        assert digest(algorithm, key.hex(), message) == hmac.new(key, message.encode(), algorithm).hexdigest()


def test_texts_are_the_same_only_when_every_character_is(call: Callable[..., Any]) -> None:  # noqa: F811
    @given(st.text("ab", max_size=6), st.text("ab", max_size=6))
    def check(one: str, other: str) -> None:
        assert call("hmac.equal", one, other) == (one == other)

    check()


def test_the_comparison_looks_at_every_character() -> None:
    """By construction: one loop over the whole text, nothing in it that ends it."""
    from tests.valkey.lua.sources import MODULES, code_of

    body = code_of(MODULES["hmac"]).partition("function M.equal")[2].partition("\nend")[0]
    loop = body.partition("for i = 1, #one do")[2].partition("end")[0]
    assert loop.strip() == "difference = bit.bor(difference, bit.bxor(one:byte(i), other:byte(i)))"
    assert body.count("return") == 2


def test_a_secret_is_never_answered(x: Waiting) -> None:
    x.seed("k1", SECRET)
    replies = [x.seed("k1", SECRET), x.rotate("k1", "zz"), x.rotate("k1", SECRET), x.kids()]
    assert SECRET not in str(replies)


SEED = "5e" * 32


def seeded_token(x: Waiting, seed: str) -> str:
    """The token of a waitpoint that is made with a seed; "" when it is refused."""
    reply = x.pending(None, "", "", "", "", seed)
    return x.token if reply[0] == 1 else ""


def test_a_token_of_a_seed_needs_no_secret(wire: valkey.Valkey) -> None:
    x = Waiting(wire).started()
    wire.delete(x.secrets)  # as good as no right to read it
    token = seeded_token(x, SEED)
    assert re.fullmatch(r"k1:[0-9a-f]{40}", token)
    assert x.deliver("buffer", name="early")[3] == "buffered_for_pending_waitpoint"
    assert x.deliver("buffer", name="early", token=token[:-1] + "x")[1] == "invalid_token"


def test_seeds_make_different_tokens_and_one_seed_does_at_two_waitpoints(wire: valkey.Valkey) -> None:
    x = Waiting(wire).started()
    tokens = {seeded_token(x, SEED), seeded_token(x, SEED), seeded_token(x, "a7" * 32)}
    assert len(tokens) == 3
    assert not any(SEED in token for token in tokens)


def test_a_token_of_a_seed_is_as_long_as_the_algorithm_of_its_kid_asks_for(wire: valkey.Valkey) -> None:
    x = Waiting(wire)
    x.seed("k1", "ab" * 32, "sha256")
    x.run()
    assert re.fullmatch(r"k1:[0-9a-f]{64}", seeded_token(x, SEED))


@pytest.mark.parametrize("seed", ["5e", "zz" * 32, SEED + "00"])
def test_a_seed_that_is_none_is_refused(wire: valkey.Valkey, seed: str) -> None:
    x = Waiting(wire).started()
    assert x.pending(None, "", "", "", "", seed)[:2] == [0, "invalid_input"]


def test_a_rotation_voids_tokens_of_seeds(wire: valkey.Valkey) -> None:
    x = Waiting(wire).started()
    seeded_token(x, SEED)
    x.rotate("k2", "cd" * 32, 0, "sha1", "1")
    assert x.deliver("buffer", name="late")[0] == 0
    assert seeded_token(x, SEED).startswith("k2:")


def test_what_is_known_of_secrets_tells_none_of_them(wire: valkey.Valkey) -> None:
    x = Waiting(wire).started()
    x.rotate("k2", "cd" * 32)
    known = {name.decode(): value.decode() for name, value in x.client.hgetall(x.known_of_secrets).items()}
    assert known["current_kid"] == "k2"
    assert {"mark:k1", "mark:k2", "expires_at:k1"} <= known.keys()
    assert not any(name.startswith("secret:") or len(value) > 20 for name, value in known.items())


def test_a_store_that_was_seeded_before_gets_its_marks_from_the_next_seeding(wire: valkey.Valkey) -> None:
    x = Waiting(wire).started()
    x.suspend(named("approval"))
    wire.delete(x.known_of_secrets)
    assert x.deliver(name="other")[0] == 1  # by the secrets themselves, for who may read them
    assert x.seed("k1", SECRET)[2] == "already_seeded"
    wire.delete(x.secrets)
    assert x.deliver()[3] == "resume_condition_satisfied"
