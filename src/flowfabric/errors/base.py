"""The base of every error, and one class for each family."""

from __future__ import annotations

from typing import ClassVar

from flowfabric.errors.codes import CODES
from flowfabric.errors.families import ErrorClass, Family
from flowfabric.errors.texts import with_short_ids

Detail = str | int | bool | None


class FlowFabricError(Exception):
    """Base of every error the library raises."""

    default_code: ClassVar[str] = "bad_reply"

    def __init__(self, message: str = "", *, code: str | None = None, **details: Detail) -> None:
        self.code = code or self.default_code
        self.details: dict[str, Detail] = {
            name: with_short_ids(value) if isinstance(value, str) else value for name, value in details.items()
        }
        self.message = with_short_ids(message) or CODES[self.code].meaning
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    @property
    def family(self) -> Family:
        return CODES[self.code].family

    @property
    def error_class(self) -> ErrorClass:
        return CODES[self.code].error_class

    @property
    def retryable(self) -> bool:
        return self.error_class is ErrorClass.RETRYABLE


class NotFound(FlowFabricError):
    """The requested record does not exist."""

    default_code = "execution_not_found"


class Conflict(FlowFabricError):
    """The stored state does not allow the operation."""

    default_code = "execution_not_active"


class Invalid(FlowFabricError):
    """The input is wrong; nothing was changed."""

    default_code = "invalid_input"


class Limited(FlowFabricError):
    """A limit is reached."""

    default_code = "rate_limit_exceeded"


class Unavailable(FlowFabricError):
    """The store cannot serve the call now."""

    default_code = "backend_unavailable"


class Internal(FlowFabricError):
    """A bug in the library or in the store."""

    default_code = "bad_reply"
