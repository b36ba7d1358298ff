"""Forms: the question a handler asks a person, kept with the execution for the page behind a waitpoint's link."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from flowfabric.core.codec import from_json

# Records of an execution with this prefix are forms, not steps.
FORM_STEPS: Final = "ff:form:"
# Records with this prefix are waitpoints that a handler created, with their tokens.
WAITPOINT_STEPS: Final = "ff:waitpoint:"


class WaitForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The question and the JSON schema of its answer, at the waitpoints with these keys."""

    waitpoints: tuple[str, ...]
    question: str = ""
    schema: dict[str, Any] | None = None

    @classmethod
    def read(cls, data: bytes) -> WaitForm:
        form: WaitForm = from_json(cls, data, root="form")
        return form
