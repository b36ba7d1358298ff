"""Errors as JSON, the same shape in every answer, and as errors again on the other side."""

from __future__ import annotations

import msgspec

from flowfabric.errors import CODES, Detail, FlowFabricError, InvalidInput, error_class_for


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong. `code` is for programs, `message` for people; `retryable`: the same call may work later."""

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
        """The error that it was made of; one that this version does not know is a reply that it cannot read."""
        kind = error_class_for(self.code)
        if "field" in self.details and issubclass(InvalidInput, kind):
            kind = InvalidInput
        found = kind.__new__(kind)
        FlowFabricError.__init__(found, self.message, code=self.code if self.code in CODES else None, **self.details)
        if "field" in self.details:
            found.field = self.details["field"]  # type: ignore[attr-defined]  # InvalidInput's
        return found
