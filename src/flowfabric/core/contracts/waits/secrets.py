"""Waitpoint secrets: seed and rotate the secrets that sign tokens, and list valid kids."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from flowfabric.core import limits
from flowfabric.core.contracts.fields import Checked, Outcome, Rule
from flowfabric.core.ids import TimestampMs
from flowfabric.core.partition import Partition
from flowfabric.core.tokens import Kid, SecretHex, TokenAlgorithm
from flowfabric.errors import InvalidInput


def _grace(field: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= limits.MAX_DURATION_MS:
        problem = f"must be a whole number from 0 to {limits.MAX_DURATION_MS}"
        raise InvalidInput(field, value, problem, code="invalid_grace_ms")
    return value


GraceMs: TypeAlias = Annotated[int, Rule(_grace)]


class RotateWaitpointHmacSecretAllArgs(Checked, frozen=True, kw_only=True):
    """Sign with a new secret from now on, in every partition; tokens of the old one stay valid for `grace_ms`.

    The kid must be new; repeating the call with the same secret changes nothing. With `end_graces` all tokens
    issued before are revoked, also those of earlier secrets, and `grace_ms` must be 0.
    """

    new_kid: Kid
    new_secret_hex: SecretHex
    grace_ms: GraceMs = limits.DEFAULT_SECRET_GRACE_MS
    algorithm: TokenAlgorithm = TokenAlgorithm.SHA256
    end_graces: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.end_graces and self.grace_ms:
            problem = "must be 0 with end_graces, which leaves no grace"
            raise InvalidInput("grace_ms", self.grace_ms, problem, code="invalid_grace_ms")

    def for_partition(self, partition: Partition) -> RotateWaitpointHmacSecretArgs:
        """The rotation of one partition."""
        return RotateWaitpointHmacSecretArgs(
            partition=partition,
            new_kid=self.new_kid,
            new_secret_hex=self.new_secret_hex,
            grace_ms=self.grace_ms,
            algorithm=self.algorithm,
            end_graces=self.end_graces,
        )


class RotateWaitpointHmacSecretArgs(RotateWaitpointHmacSecretAllArgs, frozen=True, kw_only=True):
    """Rotate the secret of one partition."""

    partition: Partition


class SecretRotated(Outcome, frozen=True, kw_only=True, tag="rotated"):
    """Rotated; `gc_count` secrets were deleted because their grace had ended."""

    previous_kid: Kid | None = None  # None: there was none
    new_kid: Kid
    gc_count: int = 0


class SecretUnchanged(Outcome, frozen=True, kw_only=True, tag="noop"):
    """This kid already signs with the same secret."""

    kid: Kid


RotateWaitpointHmacSecretOutcome: TypeAlias = SecretRotated | SecretUnchanged


class SecretRotationFailed(Outcome, frozen=True, kw_only=True, tag="failed"):
    """This partition still signs with the old secret; repeat the same rotation."""

    code: str
    message: str


PartitionRotationOutcome: TypeAlias = SecretRotated | SecretUnchanged | SecretRotationFailed


class RotateWaitpointHmacSecretAllEntry(msgspec.Struct, frozen=True, kw_only=True):
    partition: Partition
    result: PartitionRotationOutcome


class RotateWaitpointHmacSecretAllReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of every partition; a store without partitions reports one."""

    entries: tuple[RotateWaitpointHmacSecretAllEntry, ...] = ()

    @property
    def failed(self) -> tuple[RotateWaitpointHmacSecretAllEntry, ...]:
        return tuple(entry for entry in self.entries if isinstance(entry.result, SecretRotationFailed))


class SeedWaitpointHmacSecretArgs(Checked, frozen=True, kw_only=True):
    """Install the first secret where there is none, in every partition; safe to repeat at every start."""

    kid: Kid
    secret_hex: SecretHex
    algorithm: TokenAlgorithm = TokenAlgorithm.SHA256


class SecretSeeded(Outcome, frozen=True, kw_only=True, tag="seeded"):
    kid: Kid


class SecretAlreadySeeded(Outcome, frozen=True, kw_only=True, tag="already_seeded"):
    """Partitions that had a secret keep it. To sign with another one, rotate to a new kid."""

    kid: Kid  # the one that signs
    same_secret: bool  # whether the given kid is known with the given secret, in all of them


SeedOutcome: TypeAlias = SecretSeeded | SecretAlreadySeeded


class ListWaitpointHmacKidsArgs(Checked, frozen=True, kw_only=True):
    """List the valid kids of a partition; secrets are never returned."""

    partition: Partition


class VerifyingKid(msgspec.Struct, frozen=True, kw_only=True):
    """It no longer signs; its tokens are valid until the grace period ends."""

    kid: Kid
    expires_at_ms: TimestampMs
    algorithm: TokenAlgorithm = TokenAlgorithm.SHA1


class WaitpointHmacKids(msgspec.Struct, frozen=True, kw_only=True):
    """The kids of a partition; those in grace are sorted by its end."""

    current_kid: Kid | None = None  # None: no secret was seeded
    current_algorithm: TokenAlgorithm | None = None
    verifying: tuple[VerifyingKid, ...] = ()
