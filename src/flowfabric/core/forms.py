"""Forms: the question of a wait and the type of its answer, kept with the suspension for everyone who answers."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

from flowfabric.core import limits
from flowfabric.core.codec import from_json, to_json
from flowfabric.errors import InvalidInput

# Records with this prefix are waitpoints that a handler created, with their tokens.
WAITPOINT_STEPS: Final = "ff:waitpoint:"

Decoder: TypeAlias = Literal["strict", "converting", "own"]


class WaitForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The question, and the JSON schema of the answer if the wait declares a type.

    `decoder` is how the worker reads the answer: exactly as the schema says; with conversions between scalars, as
    pydantic does; or by rules of its own, which only the worker can apply.
    """

    question: str = ""
    schema: dict[str, Any] | None = None
    decoder: Decoder = "strict"

    def __post_init__(self) -> None:
        if self.question:
            limits.text("question", self.question, 0, limits.QUESTION_MAX_BYTES)
        if self.schema is not None and (size := len(to_json(self.schema))) > limits.ANSWER_SCHEMA_MAX_BYTES:
            problem = f"must be at most {limits.ANSWER_SCHEMA_MAX_BYTES} bytes of JSON"
            raise InvalidInput("schema", f"{size} bytes", problem)

    @classmethod
    def read(cls, data: bytes | str) -> WaitForm:
        form: WaitForm = from_json(cls, data, root="form")
        return form

    def to_json(self) -> bytes:
        return to_json(self)
