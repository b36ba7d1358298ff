"""Waitpoint tokens: `kid:hex`, an HMAC that binds waitpoint, key and creation time to a secret of the store.

A kid is declared for SHA-256, or for SHA-1 as the 0.2.0 wire has it; that decides the length of the digest.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from enum import StrEnum
from typing import NamedTuple

import msgspec

from flowfabric.core import limits
from flowfabric.core.ids import SecretText, TextId, WaitpointToken
from flowfabric.errors import InvalidInput

_KID_TEXT = re.compile(r"[\x21-\x39\x3b-\x7e]+")  # printable ASCII without space and colon
_HEX_TEXT = re.compile(r"(?:[0-9a-fA-F]{2})+")
_FINGERPRINT_LENGTH = 16


class TokenAlgorithm(StrEnum):
    SHA1 = "sha1"
    SHA256 = "sha256"

    @property
    def digest_length(self) -> int:
        """In hex digits."""
        return 40 if self is TokenAlgorithm.SHA1 else 64


class Kid(TextId):
    """The name of a secret, before the colon of every token that the secret signed."""

    __slots__ = ()
    field = "kid"

    @classmethod
    def _checked(cls, text: object) -> str:
        if isinstance(text, str) and len(text) <= limits.KID_MAX_BYTES and _KID_TEXT.fullmatch(text):
            return text
        problem = f"must be 1 to {limits.KID_MAX_BYTES} printable ASCII characters without space and colon"
        raise InvalidInput(cls.field, text, problem, code="invalid_kid")


class SecretHex(SecretText):
    """A signing secret in hex."""

    __slots__ = ()
    field = "secret_hex"

    @property
    def key(self) -> bytes:
        return bytes.fromhex(self.reveal())

    @classmethod
    def _checked(cls, text: object) -> str:
        low, high = limits.SECRET_MIN_BYTES, limits.SECRET_MAX_BYTES
        if isinstance(text, str) and _HEX_TEXT.fullmatch(text) and low <= len(text) // 2 <= high:
            return str.lower(text)  # one spelling, so that equal secrets compare equal
        problem = f"must be {low} to {high} bytes in hex, two digits each"
        raise InvalidInput(cls.field, "<redacted>", problem, code="invalid_secret_hex")


class SigningSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A secret with its name and algorithm."""

    kid: Kid
    secret_hex: SecretHex
    algorithm: TokenAlgorithm = TokenAlgorithm.SHA256


class TokenParts(NamedTuple):
    kid: str
    digest: str


def parse_token(token: WaitpointToken) -> TokenParts | None:
    """Kid and digest; None for text that is not a token."""
    kid, colon, digest = token.reveal().partition(":")
    if not (kid and colon and re.fullmatch(r"[0-9a-f]+", digest)):
        return None
    return TokenParts(kid, digest)


def token_kid(token: WaitpointToken) -> str:
    """The name of the secret that signed it, for lists and logs; empty for text that is not a token."""
    parts = parse_token(token)
    return parts.kid if parts else ""


def token_fingerprint(token: WaitpointToken) -> str:
    """Sixteen hex digits of a hash that identify the token in lists and logs without revealing any digit of it.

    Server functions compute the same value with their built-in hash. Empty for text that is not a token.
    """
    parts = parse_token(token)
    if parts is None:
        return ""
    return hashlib.sha1(parts.digest.encode(), usedforsecurity=False).hexdigest()[:_FINGERPRINT_LENGTH]


def mint_token(secret: SigningSecret, *, waitpoint_id: str, waitpoint_key: str, created_at: int) -> WaitpointToken:
    digest = _digest(secret, waitpoint_id, waitpoint_key, created_at)
    return WaitpointToken(f"{secret.kid}:{digest}")


def verify_token(
    token: WaitpointToken, secret: SigningSecret, *, waitpoint_id: str, waitpoint_key: str, created_at: int
) -> bool:
    """Whether `secret` signed `token` for this waitpoint.

    All digits are always compared, so the time taken reveals nothing about them (G6).
    """
    parts = parse_token(token)
    if parts is None or parts.kid != secret.kid or len(parts.digest) != secret.algorithm.digest_length:
        return False
    return hmac.compare_digest(parts.digest, _digest(secret, waitpoint_id, waitpoint_key, created_at))


def _digest(secret: SigningSecret, waitpoint_id: str, waitpoint_key: str, created_at: int) -> str:
    # The id has a fixed length and the time is digits only, so a `|` in the key cannot make two messages equal.
    message = f"{waitpoint_id}|{waitpoint_key}|{created_at}".encode()
    return hmac.new(secret.secret_hex.key, message, secret.algorithm.value).hexdigest()
