"""Errors as JSON, in the same shape in every reply, and their conversion back to exceptions."""

from __future__ import annotations

import msgspec

from flowfabric.errors import CODES, Detail, FlowFabricError, InvalidAnswer, InvalidInput, error_class_for


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error. `code` is for programs, `message` for people; `retryable`: the same call may succeed later."""

    code: str
    message: str
    retryable: bool = False
    details: dict[str, Detail] = {}
    request_id: str = ""

    @classmethod
    def of(cls, error: FlowFabricError, request_id: str = "") -> Problem:
        return cls(
            code=error.code,
            message=error.message,
            retryable=error.retryable,
            details=error.details,
            request_id=request_id,
        )

    def error(self) -> FlowFabricError:
        """The exception that it was made of; a code unknown to this version becomes an unreadable reply."""
        kind = error_class_for(self.code)
        if "field" in self.details and issubclass(InvalidInput, kind):
            kind = InvalidAnswer if self.code == InvalidAnswer.default_code else InvalidInput
        found = kind.__new__(kind)
        FlowFabricError.__init__(found, self.message, code=self.code if self.code in CODES else None, **self.details)
        if "field" in self.details:
            found.field = self.details["field"]  # type: ignore[attr-defined]  # InvalidInput's
        return found
