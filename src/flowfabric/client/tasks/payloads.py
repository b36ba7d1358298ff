"""Values to JSON and back: plain types, dataclasses, structs, enums, times and pydantic models. Never pickle.

Pydantic is not a dependency: a caller that passes a model has imported it, so it is looked up among the loaded modules.
This is the only module that uses it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, Final, Literal, TypeAlias, get_args, is_typeddict

import msgspec
from msgspec import inspect

from flowfabric.core import limits
from flowfabric.core.codec import decode_id
from flowfabric.errors import InvalidInput

ENCODING: Final = "json"

Decode: TypeAlias = Callable[[Any], Any]  # from JSON, as bytes or msgspec.Raw

# The errors of the encoder and the decoders, those of pydantic included.
UNWRITABLE: Final = (TypeError, ValueError, RecursionError, msgspec.EncodeError)
UNREADABLE: Final = (msgspec.DecodeError, ValueError, TypeError, NotImplementedError, RecursionError)

_PATH: Final = re.compile(r" - at `\$([^`]*)`$")


def encode(value: object, field: str) -> bytes:
    """`value` as JSON; errors call it `field`."""
    try:
        data = to_json(value)
    except UNWRITABLE as cause:
        # Show the type only: the value may be huge, or a secret.
        raise InvalidInput(field, type(value), f"has no JSON form: {cause}") from cause
    return limits.payload(field, data)


def decoder(kind: Any, field: str) -> Decode:
    """A function that decodes JSON as this type. Creating one is slow, so callers keep it."""
    try:
        return msgspec.json.Decoder(kind, dec_hook=_from_builtins).decode
    except TypeError as cause:
        # msgspec cannot decode unions of models and other types.
        if mentions_model(kind):
            return _pydantic().TypeAdapter(kind).validate_json  # type: ignore[no-any-return]
        raise InvalidInput(field, kind, f"cannot be the type of a payload: {cause}") from cause


decode_any: Final[Decode] = msgspec.json.Decoder(Any).decode


def decode(data: bytes | msgspec.Raw, decoded: Decode, field: str) -> Any:
    """The value in `data`; errors call it `field` and add the path of the part that does not fit."""
    try:
        return decoded(data)
    except UNREADABLE as cause:
        message = str(cause)
        place = _PATH.search(message)
        problem = _PATH.sub("", message)
        raise InvalidInput(field + (place[1] if place else ""), _shown(data), problem) from cause


def decode_unlabelled(data: bytes, decoded: Decode, field: str) -> Any:
    """The value in bytes that another program stored without an encoding: JSON, else text, and for Any the bytes."""
    for read in (decoded, lambda each: decoded(to_json(each.decode()))):
        try:
            return read(data)
        except UNREADABLE:
            continue
    return data if decoded is decode_any else decode(data, decoded, field)


def as_json(data: bytes) -> bytes | None:
    """Bytes without an encoding as JSON, whether they are JSON or text; None if they are neither."""
    try:
        decode_any(data)
    except UNREADABLE:
        try:
            return to_json(data.decode())
        except UnicodeDecodeError:
            return None
    return data


def schema(kind: Any) -> dict[str, Any] | None:
    """The JSON schema of a type; None if it has none."""
    try:
        if mentions_model(kind):
            found: dict[str, Any] = _pydantic().TypeAdapter(kind).json_schema()
            return found
        return msgspec.json.schema(kind, schema_hook=_text_schema)
    except (TypeError, ValueError, NotImplementedError):
        return None


def decoder_kind(kind: Any) -> Literal["strict", "converting", "own"]:
    """How a type is decoded: as its schema says, with conversions, or by rules that its schema does not show."""
    if mentions_model(kind):
        return "converting" if _is_told(_pydantic().TypeAdapter(kind).core_schema) else "own"
    return "own" if _has_own_enum(inspect.type_info(kind), set()) else "strict"


# Validators that run before the type's own, or replace it; and names that the schema does not list.
_UNTOLD: Final = frozenset({"function-before", "function-wrap", "function-plain", "custom-error", "is-instance"})
_BY_OTHER_NAMES: Final = ("populate_by_name", "validate_by_name")


def _is_told(core: Any) -> bool:
    """Whether a pydantic schema accepts only what its JSON schema shows, besides conversions between scalars."""
    if isinstance(core, list | tuple):
        return all(map(_is_told, core))
    if not isinstance(core, dict):
        return True
    if core.get("type") in _UNTOLD or isinstance(core.get("validation_alias"), list) or core.get("missing"):
        return False
    if any(core.get(name) for name in _BY_OTHER_NAMES):
        return False
    return all(_is_told(each) for name, each in core.items() if name not in ("serialization", "metadata"))


def _has_own_enum(info: Any, seen: set[Any]) -> bool:
    """Whether a type contains an enum that accepts more values than it lists."""
    if isinstance(info, inspect.EnumType):
        return info.cls._missing_.__func__ is not Enum._missing_.__func__  # type: ignore[attr-defined]
    if isinstance(info, list | tuple):
        return any(_has_own_enum(each, seen) for each in info)
    if not isinstance(info, inspect.Type | inspect.Field):
        return False
    if (named := getattr(info, "cls", None)) is not None:
        if named in seen:
            return False
        seen.add(named)
    return any(_has_own_enum(getattr(info, name), seen) for name in info.__struct_fields__)


def _text_schema(kind: type) -> dict[str, Any]:
    if issubclass(kind, str):
        return {"type": "string"}
    raise NotImplementedError(f"{kind} has no schema")


def to_builtins(value: object) -> object:
    """Encoder hook: a JSON form for types that msgspec does not know."""
    if isinstance(value, str):  # ids and other subclasses of str
        return str.__str__(value)
    if _is_model(type(value)):
        return msgspec.Raw(value.model_dump_json(by_alias=True, round_trip=True).encode())  # type: ignore[attr-defined]
    raise TypeError(f"{type(value).__name__} is neither a plain type, a dataclass, a struct nor a pydantic model")


def _from_builtins(kind: Any, value: object) -> object:
    """Decoder hook: the reverse of the encoder hook."""
    if kind is object:
        return value
    if isinstance(kind, type) and issubclass(kind, str):
        return decode_id(kind, value)
    if _is_model(kind):
        # As JSON, because strict models parse a time from JSON text but not from a Python str.
        return kind.model_validate_json(to_json(value))
    raise NotImplementedError(f"{kind} is neither a plain type, a dataclass, a struct nor a pydantic model")


to_json: Final = msgspec.json.Encoder(enc_hook=to_builtins).encode


def _pydantic() -> Any:
    return sys.modules.get("pydantic")


def _is_model(kind: Any) -> bool:
    pydantic = _pydantic()
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def mentions_model(kind: Any) -> bool:
    """Whether a type is a pydantic model or contains one."""
    return _is_model(kind) or any(mentions_model(part) for part in get_args(kind))


def is_record(kind: Any) -> bool:
    """Whether its values are JSON objects: dataclasses, structs, and models without their own serialization."""
    if not isinstance(kind, type):
        return False
    if issubclass(kind, msgspec.Struct):
        return not kind.__struct_config__.array_like
    if not _is_model(kind):
        return is_dataclass(kind) or is_typeddict(kind)
    own = kind.__pydantic_decorators__  # type: ignore[attr-defined]
    return not (issubclass(kind, _pydantic().RootModel) or own.model_validators or own.model_serializers)


def _shown(data: bytes | msgspec.Raw) -> object:
    """A scalar for the error message; never an object or a list, which may contain a secret."""
    text = bytes(data)
    if text[:1] in (b"{", b"["):
        return f"{len(text)} bytes of JSON"
    return text.decode(errors="replace")
