"""Errors of arguments, policies, capabilities and tokens."""

from __future__ import annotations

from flowfabric.errors.base import Invalid


class InvalidInput(Invalid):
    """One argument is wrong; the message names the field, the value and the rule."""

    default_code = "invalid_input"

    def __init__(self, field: str, value: object, problem: str, *, code: str | None = None) -> None:
        self.field = field
        super().__init__(f"{field}: {problem} (got {_shorten(value)})", code=code, field=field)


class InvalidPolicy(InvalidInput):
    default_code = "invalid_policy_json"


class InvalidCapabilities(InvalidInput):
    default_code = "invalid_capabilities"


class InvalidAnswer(InvalidInput):
    """The payload of a signal does not fit the type that the wait declares; nothing was delivered."""

    default_code = "invalid_answer"

    def __init__(self, field: str, problem: str, given: str) -> None:
        """`given` is the value in words: an object or a list is not shown, because it may contain a secret."""
        self.field = field
        Invalid.__init__(self, f"{field}: {problem} (got {given})", field=field, problem=problem)


class InvalidToken(Invalid):
    """The token is wrong or expired, or the waitpoint does not exist; only a valid token reveals which (G6)."""

    default_code = "invalid_token"


class NoContext(Invalid, LookupError):
    """`current_context()` was called where no handler runs."""


def _shorten(value: object, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
