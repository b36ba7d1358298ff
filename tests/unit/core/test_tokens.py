from __future__ import annotations

import hashlib
import hmac
import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core.ids import WaitpointId, WaitpointToken
from flowfabric.core.tokens import (
    Kid,
    SecretHex,
    SigningSecret,
    TokenAlgorithm,
    mint_token,
    parse_token,
    token_fingerprint,
    token_kid,
    verify_token,
)
from flowfabric.errors import InvalidInput

ZERO = SecretHex("00" * 32)
SHA1 = SigningSecret(kid=Kid("k1"), secret_hex=ZERO, algorithm=TokenAlgorithm.SHA1)
SHA256 = SigningSecret(kid=Kid("k2"), secret_hex=ZERO)
PLACE: dict[str, Any] = {"waitpoint_id": "wp", "waitpoint_key": "wpk:1", "created_at": 1_700_000_000_000}


def test_a_sha1_token_is_that_of_the_0_2_0_wire() -> None:
    assert mint_token(SHA1, **PLACE).reveal() == "k1:e4d057e304a36f22fceb2d98ba780b086ef85242"


def test_new_secrets_sign_with_sha256() -> None:
    digest = hmac.new(bytes(32), b"wp|wpk:1|1700000000000", "sha256").hexdigest()
    assert mint_token(SHA256, **PLACE).reveal() == f"k2:{digest}"
    assert len(digest) == SHA256.algorithm.digest_length


def test_a_secret_longer_than_a_block_is_hashed_first() -> None:
    long = SigningSecret(kid=Kid("k"), secret_hex=SecretHex("ab" * 100), algorithm=TokenAlgorithm.SHA1)
    expected = hmac.digest(bytes.fromhex("ab" * 100), b"wp|wpk:1|1700000000000", "sha1").hex()
    assert mint_token(long, **PLACE).reveal() == f"k:{expected}"


@pytest.mark.parametrize("secret", [SHA1, SHA256])
def test_a_token_is_good_for_its_own_waitpoint_only(secret: SigningSecret) -> None:
    token = mint_token(secret, **PLACE)
    assert verify_token(token, secret, **PLACE)
    for change in ({"waitpoint_id": "wq"}, {"waitpoint_key": "wpk:2"}, {"created_at": 1_700_000_000_001}):
        assert not verify_token(token, secret, **PLACE | change)


def test_a_token_of_another_secret_or_kid_is_refused() -> None:
    token = mint_token(SHA256, **PLACE)
    other = SigningSecret(kid=Kid("k2"), secret_hex=SecretHex("01" * 32))
    renamed = SigningSecret(kid=Kid("k3"), secret_hex=ZERO)
    weaker = SigningSecret(kid=Kid("k2"), secret_hex=ZERO, algorithm=TokenAlgorithm.SHA1)
    for secret in (other, renamed, weaker):
        assert not verify_token(token, secret, **PLACE)


@given(st.integers(0, 63), st.sampled_from("0123456789abcdefX"))
def test_any_changed_digit_is_refused(at: int, digit: str) -> None:
    good = mint_token(SHA256, **PLACE).reveal()
    forged = good[: 3 + at] + digit + good[4 + at :]
    assert verify_token(WaitpointToken(forged), SHA256, **PLACE) == (forged == good)


@pytest.mark.parametrize("text", ["", ":", "k2", "k2:", ":00", "k2:zz", "k2:00 ", "k2:" + "0" * 63, "k2:" + "0" * 65])
def test_what_is_no_token_is_refused_without_a_fault(text: str) -> None:
    assert not verify_token(WaitpointToken(text), SHA256, **PLACE)


def test_upper_case_digits_are_not_the_token() -> None:
    token = mint_token(SHA256, **PLACE).reveal()
    assert not verify_token(WaitpointToken(f"k2:{token[3:].upper()}"), SHA256, **PLACE)


def test_digests_are_compared_in_constant_time() -> None:
    source = inspect.getsource(verify_token)
    assert "hmac.compare_digest(parts.digest" in source
    assert "parts.digest ==" not in source


def test_kid_and_fingerprint_may_be_shown() -> None:
    token = mint_token(SHA256, **PLACE)
    assert token_kid(token) == "k2"
    fingerprint = token_fingerprint(token)
    assert fingerprint == hashlib.sha1(token.reveal()[3:].encode()).hexdigest()[:16]
    assert fingerprint not in token.reveal()
    assert fingerprint == token_fingerprint(mint_token(SHA256, **PLACE))
    assert fingerprint != token_fingerprint(mint_token(SHA1, **PLACE))


def test_text_that_is_no_token_has_neither() -> None:
    assert parse_token(WaitpointToken("nonsense")) is None
    assert token_kid(WaitpointToken("nonsense")) == token_fingerprint(WaitpointToken("nonsense")) == ""


@given(st.from_regex(r"[!-9;-~]{1,64}", fullmatch=True))
def test_every_kid_makes_a_token_that_can_be_read(kid: str) -> None:
    secret = SigningSecret(kid=Kid(kid), secret_hex=ZERO)
    token = mint_token(secret, **PLACE)
    assert token_kid(token) == kid
    assert verify_token(token, secret, **PLACE)


@pytest.mark.parametrize("kid", ["", "a:b", "a b", "a\n", "\x7f", "ä", "x" * 65, 5, None])
def test_other_kids_are_refused(kid: Any) -> None:
    with pytest.raises(InvalidInput, match="without space and colon") as caught:
        Kid(kid)
    assert caught.value.code == "invalid_kid"


@pytest.mark.parametrize("secret", ["", "0" * 33, "00" * 15, "zz" * 16, "00" * 513, "00" * 16 + "\n", 5, None])
def test_a_secret_is_enough_bytes_in_hex_and_is_not_quoted(secret: Any) -> None:
    with pytest.raises(InvalidInput, match="16 to 512 bytes in hex") as caught:
        SecretHex(secret)
    assert caught.value.code == "invalid_secret_hex"
    assert str(caught.value).endswith("(got '<redacted>')")


def test_a_secret_shows_itself_to_nobody() -> None:
    secret = SecretHex("AB" * 32)
    assert secret.reveal() == "ab" * 32
    for shown in (str(secret), repr(secret), f"{secret}", repr(SigningSecret(kid=Kid("k"), secret_hex=secret))):
        assert "abab" not in shown.lower()
    assert secret == SecretHex("ab" * 32)


def test_a_bar_in_the_key_does_not_make_two_waitpoints_equal() -> None:
    one, other = WaitpointId.new(), WaitpointId.new()
    token = mint_token(SHA256, waitpoint_id=one, waitpoint_key=f"a|{other}", created_at=1)
    assert not verify_token(token, SHA256, waitpoint_id=one, waitpoint_key="a", created_at=1)
