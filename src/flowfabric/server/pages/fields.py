"""Forms from schemas: the fields, their HTML, and the payload of a submitted form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any, Final, NamedTuple

from flowfabric.core.forms import WaitForm
from flowfabric.errors import InvalidInput
from flowfabric.server.http.bounds import read_json
from flowfabric.server.pages.schemas import Schema, problems, resolved, without_null

JSON: Final = "json"  # any other answer, if no type is declared
CHOICE: Final = "choice"
_WHOLE: Final = ""  # the name of the only field of an answer without fields


class BadAnswer(Exception):
    """A field of the form is wrong; the message is for the person who filled it in."""


class Field(NamedTuple):
    """One input."""

    name: str
    schema: Schema
    is_required: bool

    @property
    def kind(self) -> str:
        if isinstance(self.schema.get("enum"), list):
            return "choice"
        kind = self.schema.get("type")
        return kind if kind in ("boolean", "string", "integer", "number") else "json"

    @property
    def key(self) -> str:
        """The name in the form, prefixed so that it cannot clash with other inputs."""
        return f"field.{self.name}"

    def html(self, given: str | None) -> str:
        label = str(self.schema.get("title") or self.name.replace("_", " ") or "answer").capitalize()
        told = str(self.schema.get("description") or "")
        note = f"<small>{escape(told)}</small>" if told else ""
        optional = "" if self.is_required else " (optional)"
        head = f'<label for="{escape(self.key)}">{escape(label)}{optional}</label>'
        return f'<div class="field">{head}{note}{self._input(self._default() if given is None else given)}</div>'

    def _input(self, given: str) -> str:
        head = f'id="{escape(self.key)}" name="{escape(self.key)}"'
        if self.is_required and self.kind != "string":
            head += " required"
        match self.kind:
            case "boolean":
                return _select(head, [("true", "Yes"), ("false", "No")], given)
            case "choice":
                return _select(head, [(json.dumps(each), str(each)) for each in self.schema["enum"]], given)
            case "integer" | "number":
                step = "1" if self.kind == "integer" else "any"
                return f'<input {head} type="number" step="{step}" value="{escape(given)}">'
            case "string":
                return f'<textarea {head} rows="2">{escape(given)}</textarea>'
        return f'<textarea {head} rows="4" placeholder="JSON" spellcheck="false">{escape(given)}</textarea>'

    def _default(self) -> str:
        if "default" not in self.schema or self.schema["default"] is None:
            return ""
        default = self.schema["default"]
        return default if self.kind == "string" else json.dumps(default)

    def read(self, given: Mapping[str, str]) -> Any:
        """The value; KeyError when it was left out."""
        text = given.get(self.key, "")
        if self.kind == "string":
            if not text and not self.is_required:
                raise KeyError(self.name)
            return text
        if not text.strip():
            raise KeyError(self.name)
        try:
            return read_json(Any, text)
        except InvalidInput:
            raise BadAnswer(
                f"{self.name or 'the answer'} must be {'a number' if self.kind != 'json' else 'JSON'}"
            ) from None


def _select(head: str, options: list[tuple[str, str]], given: str) -> str:
    rows = "".join(
        f'<option value="{escape(value)}"{" selected" if value == given else ""}>{escape(text)}</option>'
        for value, text in options
    )
    return f'<select {head}><option value=""></option>{rows}</select>'


class Answers:
    """The answer form of a schema."""

    def __init__(self, form: WaitForm | None) -> None:
        self._root: Schema | None = form.schema if form else None
        self._schema = resolved(self._root, self._root) if self._root is not None else {}
        self.is_open = self._root is None  # any answer is allowed
        self.is_decision = self.is_open or self._schema.get("type") == "boolean"
        self.fields = self._fields()

    def _fields(self) -> list[Field]:
        if self._root is None or self.is_decision or self._schema.get("type") == "null":
            return []
        if self._schema.get("type") == "object" and self._schema.get("properties"):
            required = self._schema.get("required", ())
            return [self._field(name, each, name in required) for name, each in self._schema["properties"].items()]
        return [self._field(_WHOLE, self._schema, True)]

    def _field(self, name: str, schema: Schema, is_required: bool) -> Field:
        assert self._root is not None
        inner, may_miss = without_null(resolved(schema, self._root), self._root)
        return Field(name, inner, is_required and not may_miss)

    @property
    def told(self) -> str:
        """The description of the type."""
        return str(self._schema.get("description") or "") if self.fields and self.fields[0].name != _WHOLE else ""

    def read(self, given: Mapping[str, str]) -> Any:
        """The payload of a submitted form."""
        if self.is_open and given.get(CHOICE) == JSON:
            return _json(given.get(JSON, ""))
        if self.is_decision:
            return _decision(given)
        value = self._value(given)
        assert self._root is not None
        if found := next(problems(self._root, value, self._root), None):
            raise BadAnswer(found)
        return value

    def _value(self, given: Mapping[str, str]) -> Any:
        if not self.fields:
            return None
        found: dict[str, Any] = {}
        for field in self.fields:
            try:
                found[field.name] = field.read(given)
            except KeyError:
                if field.is_required:
                    raise BadAnswer(f"{field.name or 'the answer'} is missing") from None
                if field.name in self._schema.get("required", ()):
                    found[field.name] = None
        return found[_WHOLE] if self.fields[0].name == _WHOLE else found


def _json(text: str) -> Any:
    try:
        return read_json(Any, text)
    except InvalidInput as refusal:
        raise BadAnswer(f"the text is not JSON, or it is too long: {refusal.message}") from None


def _decision(given: Mapping[str, str]) -> bool:
    if given.get(CHOICE) not in ("approve", "reject"):
        raise BadAnswer("choose one of the two")
    return given[CHOICE] == "approve"
