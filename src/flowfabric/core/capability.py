"""Capabilities: tokens that a worker offers and an execution may require, always kept as a sorted set.

Matching is exact and case-sensitive. An execution without required capabilities runs on any worker.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from flowfabric.core import limits
from flowfabric.errors import InvalidCapabilities


def capability_set(tokens: Iterable[str], field: str = "required_capabilities") -> tuple[str, ...]:
    """The tokens without repeats, in byte order, or a refusal that names the bad one."""
    # A lone string is iterable too, and would become a set of letters.
    if isinstance(tokens, (str, bytes)) or not isinstance(tokens, Iterable):
        raise InvalidCapabilities(field, tokens, "must be a set of tokens")
    unique = {_token(field, token) for token in tokens}
    if len(unique) > limits.MAX_CAPABILITIES:
        problem = f"must hold at most {limits.MAX_CAPABILITIES} tokens"
        raise InvalidCapabilities(field, len(unique), problem)
    ordered = tuple(sorted(unique, key=str.encode))
    size = len(",".join(ordered).encode())
    if size > limits.CAPABILITIES_CSV_MAX_BYTES:
        problem = f"must take at most {limits.CAPABILITIES_CSV_MAX_BYTES} bytes, joined by commas"
        raise InvalidCapabilities(field, size, problem)
    return ordered


def to_csv(tokens: Iterable[str], field: str = "required_capabilities") -> str:
    return ",".join(capability_set(tokens, field))


def from_csv(csv: str, field: str = "required_capabilities") -> tuple[str, ...]:
    """The inverse of `to_csv`; empty text is the empty set."""
    if not isinstance(csv, str):
        raise InvalidCapabilities(field, csv, "must be comma-separated text")
    return capability_set(csv.split(","), field) if csv else ()


def missing(required: Iterable[str], offered: Iterable[str]) -> tuple[str, ...]:
    """The tokens that a worker lacks to run the execution; empty if it has all of them."""
    return tuple(sorted(set(required) - set(offered), key=str.encode))


def _token(field: str, token: object) -> str:
    if not isinstance(token, str):
        raise InvalidCapabilities(field, token, "must hold text tokens only")
    if not token:
        raise InvalidCapabilities(field, token, "must not hold an empty token")
    if "," in token:
        raise InvalidCapabilities(field, token, "a token must not contain a comma")
    if any(_forbidden(char) for char in token):
        raise InvalidCapabilities(field, token, "a token must not contain whitespace or control characters")
    return token


def _forbidden(char: str) -> bool:
    # Cs: a lone surrogate has no bytes to compare or to store.
    return char.isspace() or unicodedata.category(char) in ("Cc", "Cs")
