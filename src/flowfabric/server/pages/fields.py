"""Forms from schemas: the fields of an answer, and the payload of a submitted form.

The approval page and the dashboard show the same fields; what was filled in is read here for both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from flowfabric.core.forms import WaitForm
from flowfabric.core.rules.waits.answers import Schema, resolved
from flowfabric.errors import InvalidAnswer, InvalidInput
from flowfabric.server.http.bounds import read_json

CHOICE: Final = "choice"
APPROVE: Final = "approve"
REJECT: Final = "reject"
_WHOLE: Final = ""  # the name of the only field of an answer without fields

Kind: TypeAlias = Literal["boolean", "choice", "string", "integer", "number", "json"]
_PLAIN: Final[dict[str, Kind]] = {
    "boolean": "boolean",
    "string": "string",
    "integer": "integer",
    "number": "number",
}


class BadAnswer(Exception):
    """A field of the form is wrong; the message is for the person who filled it in."""


def said(problem: Exception) -> str:
    """A problem of an answer, for the person who gave it."""
    if isinstance(problem, InvalidAnswer):
        field = problem.field.removeprefix("payload").removeprefix(".")
        return f"{field or 'the answer'} {problem.details['problem']}"
    return problem.message if isinstance(problem, InvalidInput) else str(problem)


class Option(msgspec.Struct, frozen=True):
    """One of several answers: the JSON to send, and its text."""

    value: str
    text: str


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One input. `key` is its name in a submitted form, prefixed so that it cannot clash with other inputs."""

    key: str
    label: str
    kind: Kind
    is_required: bool
    note: str = ""
    value: str = ""  # at first
    options: tuple[Option, ...] = ()


class Fields(msgspec.Struct, frozen=True, kw_only=True):
    """The form of an answer: a decision has two buttons, approve and reject, besides its other fields.

    Without a declared type (`is_open`) the only field is the payload itself.
    """

    fields: tuple[Field, ...] = ()
    is_decision: bool = False
    is_open: bool = False
    note: str = ""  # the description of the type


class _Member(NamedTuple):
    """A field of the form, and the member of the answer that it fills."""

    name: str
    field: Field
    may_be_null: bool

    def read(self, given: Mapping[str, str]) -> Any:
        """The value; KeyError when it was left out."""
        field, text = self.field, given.get(self.field.key, "")
        if field.kind == "string":
            if not text and not field.is_required:
                raise KeyError(self.name)
            return text
        if not text.strip():
            raise KeyError(self.name)
        try:
            return read_json(Any, text)
        except InvalidInput as refusal:
            wanted = "a number" if field.kind in ("integer", "number") else f"JSON: {refusal.message}"
            raise BadAnswer(f"{self.name or 'the answer'} must be {wanted}") from None


class Answers:
    """The answer form of a wait. A yes/no decision is a bool, or an object whose one required member is a bool."""

    def __init__(self, form: WaitForm | None) -> None:
        self._root: Schema = (form.schema if form else None) or {}
        self._schema = resolved(self._root, self._root)
        self._decided = self._decision()
        self._members = self._all_members()
        self.form = Fields(
            fields=tuple(each.field for each in self._members),
            is_decision=self._decided is not None,
            is_open=not self._root,
            note=str(self._schema.get("description") or "") if self._has_members else "",
        )

    @property
    def _has_members(self) -> bool:
        return self._schema.get("type") == "object" and bool(self._schema.get("properties"))

    def _decision(self) -> str | None:
        """The name of the member that the two buttons fill; None without a decision."""
        if self._schema.get("type") == "boolean":
            return _WHOLE
        required = self._schema.get("required", ())
        if not self._has_members or len(required) != 1:
            return None
        wanted = resolved(self._schema["properties"].get(required[0], {}), self._root)
        return str(required[0]) if wanted.get("type") == "boolean" else None

    def _all_members(self) -> list[_Member]:
        if not self._root:
            return [_member(_WHOLE, {"title": "payload", "description": _ANYTHING}, False, self._root)]
        if self._schema.get("type") == "null" or self._decided == _WHOLE:
            return []
        if not self._has_members:
            return [_member(_WHOLE, self._schema, True, self._root)]
        required = self._schema.get("required", ())
        known = {name: each for name, each in self._schema["properties"].items() if name != self._decided}
        return [_member(name, each, name in required, self._root) for name, each in known.items()]

    def read(self, given: Mapping[str, str]) -> Any:
        """The payload of a submitted form; the type of the wait is checked when it is delivered."""
        found: dict[str, Any] = {}
        if self._decided is not None:
            if given.get(CHOICE) not in (APPROVE, REJECT):
                raise BadAnswer("choose one of the two")
            found[self._decided] = given[CHOICE] == APPROVE
        for each in self._members:
            try:
                found[each.name] = each.read(given)
            except KeyError:
                if each.field.is_required:
                    raise BadAnswer(f"{each.name or 'the answer'} is missing") from None
                if each.may_be_null:
                    found[each.name] = None
        return found if self._has_members else found.get(_WHOLE)


_ANYTHING: Final = "JSON; empty: a signal without a payload"


def _member(name: str, schema: Schema, is_required: bool, root: Schema) -> _Member:
    inner, may_miss = _without_null(resolved(schema, root), root)
    options = tuple(Option(json.dumps(each), str(each)) for each in _listed(inner))
    kind: Kind = "choice" if options else _PLAIN.get(str(inner.get("type")), "json")
    field = Field(
        key=f"field.{name}",
        label=str(inner.get("title") or name.replace("_", " ") or "answer").capitalize(),
        kind=kind,
        is_required=is_required and not may_miss,
        note=str(inner.get("description") or ""),
        value=_default(inner),
        options=options,
    )
    return _Member(name, field, is_required and may_miss)


def _listed(schema: Schema) -> list[Any]:
    listed = schema.get("enum")
    return listed if isinstance(listed, list) else []


def _default(schema: Schema) -> str:
    default = schema.get("default")
    if default is None:
        return ""
    return default if schema.get("type") == "string" and not _listed(schema) else json.dumps(default)


def _without_null(schema: Schema, root: Schema) -> tuple[Schema, bool]:
    """The schema of an optional value, and whether it is optional."""
    options = [resolved(each, root) for each in schema.get("anyOf", ())]
    others = [each for each in options if each.get("type") != "null"]
    if len(options) == 2 and len(others) == 1:
        told = {name: value for name, value in schema.items() if name in ("title", "description", "default")}
        return others[0] | told, True
    return schema, False
