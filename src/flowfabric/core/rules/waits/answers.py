"""Whether an answer fits the type that a wait declares: its JSON schema against a JSON value.

The rule covers the part of JSON Schema that msgspec and pydantic write, and accepts what it does not know: the worker
decodes every answer and is the last judge. So a refusal here is certain, and an acceptance is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from flowfabric.core.codec import from_json
from flowfabric.core.forms import WaitForm
from flowfabric.errors import InvalidAnswer, InvalidInput

Schema = dict[str, Any]

_JSON: Final = "json"
_REFERENCE: Final = "#/$defs/"
_DEEPEST: Final = 64
_MOST_LOOKS: Final = 20_000  # unions of recursive types could take forever
_LONGEST_TEXT: Final = 4_096  # that is compared with a pattern
_SCALARS: Final = (str, int, float)
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}
_NAMES: Final = {
    "string": "text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
# A pattern with one open-ended repetition and no repeated group takes at most quadratic time.
_OPEN_ENDED: Final = re.compile(r"(?<!\\)[*+]|\{\d*,\}")
_NESTED: Final = re.compile(r"\)[*+?{]|\\[1-9]|\(\?P=")


class Misfit(NamedTuple):
    """The first part of an answer that does not fit: its path, what it must be, and what was given."""

    field: str
    problem: str
    given: str


class _Enough(Exception):
    """The answer is too large to be judged here."""


def check(form: WaitForm, payload: bytes | None, encoding: str | None) -> None:
    """Refuse the payload of a signal that does not fit; no payload counts as null."""
    if form.schema is None or form.decoder == "own":
        return
    if payload is not None and encoding not in (None, _JSON):
        if "contentEncoding" not in form.schema:  # a wait for bytes takes any encoding
            raise InvalidAnswer("payload_encoding", f"must be {_JSON}", _shown(encoding))
        return
    try:
        value = None if payload is None else from_json(Any, payload, root="payload")
    except InvalidInput:
        raise InvalidAnswer("payload", "must be JSON", "something else") from None
    if found := misfit(form.schema, value, converts=form.decoder == "converting"):
        raise InvalidAnswer(*found)


def misfit(schema: Schema, value: Any, *, converts: bool = False, field: str = "payload") -> Misfit | None:
    """The first misfit of a JSON value, or None. `converts`: the decoder converts scalars, as pydantic does."""
    try:
        return _Judge(schema, converts).look(schema, value, field, 0)
    except _Enough:
        return None


def expected(schema: Any, root: Schema) -> str:
    """What a value must be, in words."""
    schema = resolved(schema, root)
    if "const" in schema or "enum" in schema:
        allowed = schema["enum"] if "enum" in schema else [schema["const"]]
        return "one of " + ", ".join(map(_text, allowed)) if len(allowed) > 1 else ", ".join(map(_text, allowed))
    if options := _options(schema):
        return " or ".join(dict.fromkeys(expected(each, root) for each in options))
    return " or ".join(_NAMES[each] for each in _kinds(schema)) or "another value"


def resolved(schema: Any, root: Schema) -> Schema:
    """The schema with its references resolved; one that allows everything is empty."""
    for _ in range(_DEEPEST):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith(_REFERENCE):
            break
        found = root.get("$defs", {}).get(reference.removeprefix(_REFERENCE), {})
        schema = found | {name: value for name, value in schema.items() if name != "$ref"}
    return schema if isinstance(schema, dict) else {}


class _Judge:
    """Compares one value with one schema, and gives up after too many looks."""

    def __init__(self, root: Schema, converts: bool) -> None:
        self._root = root
        self._converts = converts
        self._looks = 0

    def look(self, schema: Any, value: Any, path: str, depth: int) -> Misfit | None:
        self._looks += 1
        if self._looks > _MOST_LOOKS or depth > _DEEPEST:
            raise _Enough
        schema = resolved(schema, self._root)
        if not self._is_of(schema, value) or not self._is_allowed(schema, value):
            return _misfit(path, expected(schema, self._root), value)
        if problem := self._out_of_bounds(schema, value):
            return Misfit(path, problem, _shown(value))
        return self._look_at_options(schema, value, path, depth) or next(self._parts(schema, value, path, depth), None)

    def _look_at_options(self, schema: Schema, value: Any, path: str, depth: int) -> Misfit | None:
        for each in schema.get("allOf", ()):
            if found := self.look(each, value, path, depth + 1):
                return found
        options = [each for each in _options(schema) if self._has_tags(each, value)]
        found_at = [self.look(each, value, path, depth + 1) for each in options]
        if None in found_at or not _options(schema):
            return None
        inside = [each for each in found_at if each is not None and each.field != path]
        return inside[0] if len(inside) == 1 else _misfit(path, expected(schema, self._root), value)

    def _has_tags(self, schema: Any, value: Any) -> bool:
        """Whether an object may be of this kind, by the members that have only one value there."""
        known = resolved(schema, self._root).get("properties", {})
        if not isinstance(value, dict):
            return True
        tags = [(each, value[name]) for name, each in known.items() if name in value and _is_tag(each)]
        return all(self._is_allowed(each, given) for each, given in tags)

    def _is_of(self, schema: Schema, value: Any) -> bool:
        kinds = _kinds(schema)
        if not kinds or any(_is_kind(each, value) for each in kinds):
            return True
        if schema.get("format") == "decimal" and isinstance(value, int | float):
            return True
        is_scalar = any(each not in ("object", "array", "null") for each in kinds)
        return self._converts and is_scalar and isinstance(value, _SCALARS)

    def _is_allowed(self, schema: Schema, value: Any) -> bool:
        if "enum" not in schema and "const" not in schema:
            return True
        allowed = schema["enum"] if "enum" in schema else [schema["const"]]
        if self._converts and not all(isinstance(each, str) for each in [*allowed, value]):
            return True
        return value in allowed

    def _out_of_bounds(self, schema: Schema, value: Any) -> str | None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _number_problem(schema, value)
        if isinstance(value, list):
            return _length_problem(schema, len(value), "Items", "items")
        if isinstance(value, str) and not self._converts:  # a decoder that converts may also strip the text
            return _length_problem(schema, len(value), "Length", "characters") or _pattern_problem(schema, value)
        return None

    def _parts(self, schema: Schema, value: Any, path: str, depth: int) -> Iterator[Misfit]:
        if isinstance(value, dict):
            yield from self._members(schema, value, path, depth)
        elif isinstance(value, list):
            yield from self._items(schema, value, path, depth)

    def _members(self, schema: Schema, value: dict[str, Any], path: str, depth: int) -> Iterator[Misfit]:
        known, rest = schema.get("properties", {}), schema.get("additionalProperties", {})
        for name in schema.get("required", ()):
            if name not in value and not _is_tag(known.get(name)):
                yield Misfit(f"{path}.{name}", f"must be {expected(known.get(name, {}), self._root)}", "nothing")
        for name, each in value.items():
            inner = known.get(name, rest)
            if inner is False and "patternProperties" not in schema:
                yield Misfit(f"{path}.{name}", "is not a field of the answer", _shown(each))
            elif found := self.look(inner, each, f"{path}.{name}", depth + 1):
                yield found

    def _items(self, schema: Schema, value: list[Any], path: str, depth: int) -> Iterator[Misfit]:
        first = schema.get("prefixItems", ())
        for at, each in enumerate(value):
            inner = first[at] if at < len(first) else schema.get("items", {})
            if found := self.look(inner, each, f"{path}[{at}]", depth + 1):
                yield found


def _kinds(schema: Schema) -> list[str]:
    kinds = schema.get("type", ())
    return [each for each in ([kinds] if isinstance(kinds, str) else kinds) if each in _KINDS]


def _options(schema: Schema) -> list[Any]:
    return [*schema.get("anyOf", ()), *schema.get("oneOf", ())]


def _is_tag(schema: Any) -> bool:
    """Whether a member has only one value, as tags of unions have; a decoder may do without it."""
    return isinstance(schema, dict) and ("const" in schema or len(schema.get("enum", ())) == 1)


def _is_kind(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _KINDS[kind])


def _number_problem(schema: Schema, value: float) -> str | None:
    try:
        value = float(value) if schema.get("type") == "number" else value  # as the decoder compares it
    except OverflowError:
        return None
    if (low := schema.get("minimum")) is not None and value < low:
        return f"must be at least {low}"
    if (low := schema.get("exclusiveMinimum")) is not None and value <= low:
        return f"must be more than {low}"
    if (high := schema.get("maximum")) is not None and value > high:
        return f"must be at most {high}"
    if (high := schema.get("exclusiveMaximum")) is not None and value >= high:
        return f"must be less than {high}"
    return None


def _length_problem(schema: Schema, length: int, name: str, unit: str) -> str | None:
    low, high = schema.get(f"min{name}", 0), schema.get(f"max{name}", length)
    if "contentEncoding" in schema:
        return None  # the bytes count, not the text
    if schema.get("uniqueItems"):
        high = length  # a set counts equal items once
    if low <= length <= high:
        return None
    return f"must have {f'at least {low}' if length < low else f'at most {high}'} {unit}"


def _pattern_problem(schema: Schema, text: str) -> str | None:
    """A pattern that a stranger could make slow is left to the worker."""
    pattern = schema.get("pattern")
    if not isinstance(pattern, str) or len(text) > _LONGEST_TEXT:
        return None
    if len(_OPEN_ENDED.findall(pattern)) > 1 or _NESTED.search(pattern):
        return None
    try:
        return None if re.search(pattern, text) else f"must match {pattern}"
    except re.error:
        return None


def _misfit(path: str, wanted: str, value: Any) -> Misfit:
    return Misfit(path, f"must be {wanted}", _shown(value))


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return repr(value)


def _shown(value: Any) -> str:
    """A scalar, shortened; never an object or a list, which may contain a secret."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = _text(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
