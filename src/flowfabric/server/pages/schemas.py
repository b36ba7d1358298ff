"""JSON schemas as generated from payload types: their description, and validation of a value.

A handler fails on a signal of the wrong type, so the answer of a person is checked before delivery.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

Schema = dict[str, Any]

_DEEPEST: Final = 20
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


def resolved(schema: Schema, root: Schema) -> Schema:
    """The schema with its references resolved."""
    for _ in range(_DEEPEST):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/$defs/"):
            break
        found = root.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})
        schema = found | {name: value for name, value in schema.items() if name != "$ref"}
    return schema


def without_null(schema: Schema, root: Schema) -> tuple[Schema, bool]:
    """The schema of an optional value, and whether it is optional."""
    options = [resolved(each, root) for each in schema.get("anyOf", ())]
    others = [each for each in options if each.get("type") != "null"]
    if len(options) == 2 and len(others) == 1:
        told = {name: value for name, value in schema.items() if name in ("title", "description", "default")}
        return others[0] | told, True
    return schema, False


def problems(schema: Schema, value: Any, root: Schema, path: str = "", depth: int = 0) -> Iterator[str]:
    """The problems of a value."""
    schema, name = resolved(schema, root), path or "the answer"
    if depth > _DEEPEST:
        return
    if "anyOf" in schema:
        if all(any(problems(each, value, root, path, depth + 1)) for each in schema["anyOf"]):
            yield f"{name} is not one of the allowed values"
        return
    if not _is_of(schema.get("type"), value):
        yield f"{name} must be {_article(schema['type'])}"
    elif ("enum" in schema and value not in schema["enum"]) or ("const" in schema and value != schema["const"]):
        yield f"{name} must be one of {', '.join(map(str, schema.get('enum', [schema.get('const')])))}"
    else:
        yield from _bounds(schema, value, name)
        yield from _parts(schema, value, root, path, depth)


def _is_of(kind: Any, value: Any) -> bool:
    if not isinstance(kind, str) or kind not in _KINDS:
        return True
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _article(kind: str) -> str:
    said = {"integer": "a whole number", "boolean": "yes or no", "string": "text", "null": "empty", "array": "a list"}
    return said.get(kind, f"a {kind}" if kind == "number" else f"an {kind}")


def _bounds(schema: Schema, value: Any, name: str) -> Iterator[str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < schema.get("minimum", value) or value <= schema.get("exclusiveMinimum", value - 1):
            yield f"{name} is too small"
        if value > schema.get("maximum", value) or value >= schema.get("exclusiveMaximum", value + 1):
            yield f"{name} is too large"
    if isinstance(value, str | list):
        unit = "Length" if isinstance(value, str) else "Items"
        if not schema.get(f"min{unit}", 0) <= len(value) <= schema.get(f"max{unit}", len(value)):
            yield f"{name} is too short or too long"


def _parts(schema: Schema, value: Any, root: Schema, path: str, depth: int) -> Iterator[str]:
    if isinstance(value, dict):
        known = schema.get("properties", {})
        yield from (f"{_within(path, each)} is missing" for each in schema.get("required", ()) if each not in value)
        for name, each in value.items():
            inner = known.get(name, schema.get("additionalProperties", {}))
            if inner is False:
                yield f"{_within(path, name)} is not a known field"
            elif isinstance(inner, dict):
                yield from problems(inner, each, root, _within(path, name), depth + 1)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for at, each in enumerate(value):
            yield from problems(schema["items"], each, root, f"{path}[{at}]", depth + 1)


def _within(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
