from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import codec, limits
from flowfabric.core.contracts import (
    ListWaitpointHmacKidsArgs,
    RotateWaitpointHmacSecretAllArgs,
    RotateWaitpointHmacSecretAllEntry,
    RotateWaitpointHmacSecretAllReport,
    RotateWaitpointHmacSecretArgs,
    RotateWaitpointHmacSecretOutcome,
    SecretAlreadySeeded,
    SecretRotated,
    SecretRotationFailed,
    SecretSeeded,
    SecretUnchanged,
    SeedOutcome,
    SeedWaitpointHmacSecretArgs,
    VerifyingKid,
    WaitpointHmacKids,
)
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.core.tokens import Kid, SecretHex, TokenAlgorithm
from flowfabric.errors import InvalidInput

SECRET = "ab" * 32
SEVEN, EIGHT = Partition(PartitionFamily.FLOW, 7), Partition(PartitionFamily.FLOW, 8)


def rotate(**changes: Any) -> RotateWaitpointHmacSecretAllArgs:
    members: dict[str, Any] = {"new_kid": "k2", "new_secret_hex": SECRET}
    return RotateWaitpointHmacSecretAllArgs(**members | changes)


def test_a_rotation_has_a_day_of_grace_and_signs_with_sha256() -> None:
    args = rotate()
    assert (args.grace_ms, args.algorithm) == (86_400_000, TokenAlgorithm.SHA256)
    assert (type(args.new_kid), type(args.new_secret_hex)) == (Kid, SecretHex)


def test_a_rotation_concerns_every_partition_alike() -> None:
    args = rotate(grace_ms=5, algorithm="sha1").for_partition(SEVEN)
    assert args == RotateWaitpointHmacSecretArgs(
        partition=SEVEN,
        new_kid=Kid("k2"),
        new_secret_hex=SecretHex(SECRET),
        grace_ms=5,
        algorithm=TokenAlgorithm.SHA1,
    )
    assert rotate(grace_ms=0, end_graces=True).for_partition(SEVEN).end_graces


@pytest.mark.parametrize("grace", [{}, {"grace_ms": 1}])
def test_no_grace_goes_with_the_end_of_all_graces(grace: dict[str, int]) -> None:
    assert not rotate().end_graces
    with pytest.raises(InvalidInput, match="must be 0 with end_graces") as caught:
        rotate(end_graces=True, **grace)
    assert (caught.value.field, caught.value.code) == ("grace_ms", "invalid_grace_ms")


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("new_kid", "", "invalid_kid"),
        ("new_kid", "a:b", "invalid_kid"),
        ("new_secret_hex", "abc", "invalid_secret_hex"),
        ("new_secret_hex", "", "invalid_secret_hex"),
        ("grace_ms", -1, "invalid_grace_ms"),
        ("grace_ms", 1.5, "invalid_grace_ms"),
        ("grace_ms", limits.MAX_DURATION_MS + 1, "invalid_grace_ms"),
        ("algorithm", "md5", "invalid_input"),
        ("end_graces", "yes", "invalid_input"),
    ],
)
def test_a_rotation_is_refused_by_field(name: str, value: object, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        rotate(**{name: value})
    assert (caught.value.field, caught.value.code) == (name, code)


def test_no_secret_is_printed_or_quoted() -> None:
    assert SECRET not in repr(rotate())
    assert SECRET not in repr(SeedWaitpointHmacSecretArgs(kid=Kid("k1"), secret_hex=SecretHex(SECRET)))
    for data in (b'{"new_kid":"k2","new_secret_hex":"%s0"}', b'{"new_kid":"k2","new_secret_hex":["%s"]}'):
        with pytest.raises(InvalidInput) as caught:
            codec.from_json(RotateWaitpointHmacSecretAllArgs, data % SECRET.encode())
        assert "abab" not in str(caught.value)


@pytest.mark.parametrize("result", [SecretRotated(new_kid=Kid("k2"), gc_count=1), SecretUnchanged(kid=Kid("k2"))])
def test_a_rotation_says_whether_it_changed_anything(result: RotateWaitpointHmacSecretOutcome) -> None:
    assert codec.from_json(RotateWaitpointHmacSecretOutcome, codec.to_json(result)) == result


def test_partitions_that_failed_are_reported() -> None:
    good = RotateWaitpointHmacSecretAllEntry(partition=SEVEN, result=SecretRotated(new_kid=Kid("k2")))
    failed = SecretRotationFailed(code="backend_timeout", message="the store did not answer in time")
    bad = RotateWaitpointHmacSecretAllEntry(partition=EIGHT, result=failed)
    report = RotateWaitpointHmacSecretAllReport(entries=(good, bad))
    assert report.failed == (bad,)
    assert codec.from_json(RotateWaitpointHmacSecretAllReport, codec.to_json(report)) == report


@pytest.mark.parametrize("same", [True, False])
def test_seeding_again_says_whether_it_is_the_same_secret(same: bool) -> None:
    for result in (SecretSeeded(kid=Kid("k1")), SecretAlreadySeeded(kid=Kid("k1"), same_secret=same)):
        assert codec.from_json(SeedOutcome, codec.to_json(result)) == result


def test_a_list_of_kids_holds_no_secret() -> None:
    kids = WaitpointHmacKids(
        current_kid=Kid("k2"),
        current_algorithm=TokenAlgorithm.SHA256,
        verifying=(VerifyingKid(kid=Kid("k1"), expires_at_ms=1_700_000_000_000),),
    )
    assert codec.from_json(WaitpointHmacKids, codec.to_json(kids)) == kids
    assert b"secret" not in codec.to_json(kids)
    assert WaitpointHmacKids().current_kid is None
    assert ListWaitpointHmacKidsArgs(partition=SEVEN).partition == SEVEN
