"""Values to JSON and back: ids travel as plain strings, and errors name the path of the bad member."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, TypeVar, overload

import msgspec
from msgspec import inspect

from flowfabric.core.ids import ExecutionId
from flowfabric.errors import InvalidInput

T = TypeVar("T")

_PATH = re.compile(r"\$([^`]*)`$")
_MEMBER = re.compile(r"Object (missing required|contains unknown) field `([^`]+)`")
_STEP = re.compile(r"\.([^.\[]+)|\[([0-9]+)\]|\[\.\.\.\]")
_SECRET = re.compile(r"token|secret")
_UNKNOWN = "is not a known field"


class _Refused(ValueError):
    """Carries an InvalidInput through msgspec, which adds the path to a ValueError only."""

    def __init__(self, error: InvalidInput) -> None:
        self.error = error
        super().__init__(str(error))


def encode_id(value: object) -> str:
    """The plain text of an id; msgspec supports only `str` itself."""
    if isinstance(value, str):
        return str.__str__(value)
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


def encode_short_id(value: object) -> str:
    """The same for readers outside of the store: the id of an execution has its short form."""
    return value.short if isinstance(value, ExecutionId) else encode_id(value)


def decode_id(kind: type[Any], value: object) -> object:
    """Parse `value` as the id type `kind`."""
    if not issubclass(kind, str):
        raise NotImplementedError(f"{kind.__name__} has no JSON form")
    try:
        return kind(value)
    except InvalidInput as error:
        raise _Refused(error) from error


_encoder = msgspec.json.Encoder(enc_hook=encode_id)


def to_json(value: object) -> bytes:
    """`value` as compact JSON; bytes become base64."""
    return _encoder.encode(value)


_packer = msgspec.msgpack.Encoder(enc_hook=encode_id)


def to_msgpack(value: object) -> bytes:
    """`value` as MessagePack; bytes stay bytes."""
    return _packer.encode(value)


def from_msgpack(data: bytes) -> Any:
    """Plain values from MessagePack. Raises ValueError for anything else."""
    return msgspec.msgpack.decode(data)


@overload
def from_json(kind: type[T], data: str | bytes, *, error: type[InvalidInput] = ..., root: str = ...) -> T: ...
@overload
def from_json(kind: object, data: str | bytes, *, error: type[InvalidInput] = ..., root: str = ...) -> Any: ...
def from_json(kind: object, data: str | bytes, *, error: type[InvalidInput] = InvalidInput, root: str = "") -> Any:
    """Parse `data` as `kind`, which may be a union; a mismatch raises `error` with the path of the bad member."""
    if not isinstance(data, (str, bytes)):
        raise error(root or "json", data, "must be text or bytes")
    try:
        return _decoder(kind).decode(data)
    except msgspec.DecodeError as refusal:
        raise _explain(refusal, kind, data, error, root) from None
    except UnicodeError:
        raise error(root or "json", _size(data), "must be valid UTF-8") from None
    except RecursionError:
        raise error(root or "json", _size(data), "must not be nested so deeply") from None


def from_plain(kind: Any, value: dict[str, Any], *, texts: bool = False) -> Any:
    """Convert plain values to `kind`, with the checks of JSON. texts: numbers may be given as text, as in a query."""
    try:
        return msgspec.convert(value, kind, dec_hook=decode_id, strict=not texts)
    except msgspec.ValidationError as refusal:
        raise _explain(refusal, kind, msgspec.json.encode(value), InvalidInput, "") from None


def relocate(error: InvalidInput, path: str) -> InvalidInput:
    """The same refusal, about the member at `path`."""
    error.message = path + error.message.removeprefix(error.field)
    error.field = error.details["field"] = path
    error.args = (error.message,)
    return error


@lru_cache(maxsize=512)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=decode_id)


def _explain(
    refusal: msgspec.DecodeError, kind: object, data: str | bytes, error: type[InvalidInput], root: str
) -> InvalidInput:
    path, problem = _place(str(refusal))
    field = (root + path).lstrip(".") or "json"
    cause = refusal.__cause__
    if isinstance(cause, _Refused):
        if error is InvalidInput:
            return relocate(cause.error, field)
        problem = cause.error.message.removeprefix(f"{cause.error.field}: ").partition(" (got ")[0]
    elif problem.startswith("invalid ") and (allowed := _allowed(kind, path)):
        problem = f"must be one of {', '.join(allowed)}"
    elif problem == _UNKNOWN and (names := _names(kind, path)):
        problem = f"{_UNKNOWN}; known fields: {', '.join(names)}"
    value = "<redacted>" if _SECRET.search(path) else _value_at(data, path)
    return error(field, value, problem)


def _place(message: str) -> tuple[str, str]:
    """Split msgspec's message into the path at its end and the problem."""
    problem, _, where = message.partition(" - at ")
    match = _PATH.search(where)
    path = match[1] if match else ""
    member = _MEMBER.match(problem)
    if member:
        return f"{path}.{member[2]}", "is missing" if member[1].startswith("missing") else _UNKNOWN
    if problem == "Input data was truncated":
        return path, "is not JSON: it is empty or truncated"
    if problem.startswith("JSON is malformed: "):
        return path, problem.replace("JSON is malformed", "is not JSON", 1)
    return path, problem[:1].lower() + problem[1:]


def _names(kind: object, path: str) -> list[str]:
    """The fields of the object that contains the unknown field at `path`."""
    found = _nodes(kind, path.rpartition(".")[0])
    return [field.encode_name for node in found for field in getattr(node, "fields", ())]


def _nodes(kind: object, path: str) -> list[Any]:
    """The types allowed at `path`."""
    found: list[Any] = _options(inspect.type_info(kind))
    for name, _ in _STEP.findall(path):
        found = [child for node in found for child in _children(node, name)]
    return found


def _allowed(kind: object, path: str) -> list[str]:
    """The members of the enum, or the tags of the union, allowed at `path`."""
    found = _nodes(kind, path)
    enums = [str(member.value) for node in found if isinstance(node, inspect.EnumType) for member in node.cls]
    return enums + [node for node in found if isinstance(node, str)]


def _children(node: Any, name: str) -> list[Any]:
    if not name:
        return _options(getattr(node, "item_type", None) or getattr(node, "value_type", None))
    if getattr(node, "tag_field", None) == name:
        return [node.tag]
    fields = [field.type for field in getattr(node, "fields", ()) if field.encode_name == name]
    return [option for field in fields for option in _options(field)]


def _options(node: Any) -> list[Any]:
    return list(node.types) if isinstance(node, inspect.UnionType) else [node]


def _value_at(data: str | bytes, path: str) -> object:
    """The value of the bad member for the message; never a whole object, which may hold a secret."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return _size(data)
    for name, index in _STEP.findall(path):
        if name and isinstance(value, dict):
            value = value.get(name)
        elif index and isinstance(value, list) and int(index) < len(value):
            value = value[int(index)]
    if isinstance(value, dict):
        return f"an object with {len(value)} members"
    return f"a list of {len(value)}" if isinstance(value, list) else value


def _size(data: str | bytes) -> str:
    return f"{len(data)} characters" if isinstance(data, str) else f"{len(data)} bytes"
