"""What a person is asked where a handler waits: kept with the execution, for the page that a waitpoint's link shows."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from flowfabric.core.codec import from_json

# Such records of an execution are forms, and no steps.
FORM_STEPS: Final = "ff:form:"
# And such are waitpoints that a handler made, with their tokens.
WAITPOINT_STEPS: Final = "ff:waitpoint:"


class WaitForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The question, and the JSON schema of the answer, at the waitpoints with these keys."""

    waitpoints: tuple[str, ...]
    question: str = ""
    schema: dict[str, Any] | None = None

    @classmethod
    def read(cls, data: bytes) -> WaitForm:
        form: WaitForm = from_json(cls, data, root="form")
        return form
