"""Values to JSON and back: plain types, dataclasses, structs, enums, times and pydantic models. Never pickle.

Pydantic is no dependency: nobody can pass a model without having imported it, so it is only looked for among the
modules that are loaded. This is the one place that knows it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, Final, TypeAlias, get_args, is_typeddict

import msgspec

from flowfabric.core import limits
from flowfabric.core.codec import decode_id
from flowfabric.errors import InvalidInput

ENCODING: Final = "json"

Decode: TypeAlias = Callable[[Any], Any]  # from JSON, as bytes or msgspec.Raw

# What the encoder and the decoders raise, pydantic's refusals included.
UNWRITABLE: Final = (TypeError, ValueError, RecursionError, msgspec.EncodeError)
UNREADABLE: Final = (msgspec.DecodeError, ValueError, TypeError, NotImplementedError, RecursionError)

_PATH: Final = re.compile(r" - at `\$([^`]*)`$")


def encode(value: object, field: str) -> bytes:
    """`value` as JSON; `field` is its name in errors."""
    try:
        data = to_json(value)
    except UNWRITABLE as cause:
        # Named by its type: the value may be huge, or a secret.
        raise InvalidInput(field, type(value), f"has no JSON form: {cause}") from cause
    return limits.payload(field, data)


def decoder(kind: Any, field: str) -> Decode:
    """What turns JSON into a value of this type. Making one is slow, so whoever needs it again keeps it."""
    try:
        return msgspec.json.Decoder(kind, dec_hook=_from_builtins).decode
    except TypeError as cause:
        # Unions of models and other types are beyond msgspec.
        if mentions_model(kind):
            return _pydantic().TypeAdapter(kind).validate_json  # type: ignore[no-any-return]
        raise InvalidInput(field, kind, f"is no type of a payload: {cause}") from cause


decode_any: Final[Decode] = msgspec.json.Decoder(Any).decode


def decode(data: bytes | msgspec.Raw, decoded: Decode, field: str) -> Any:
    """The value in `data`, which is called `field`; what does not fit the type is refused with its path."""
    try:
        return decoded(data)
    except UNREADABLE as cause:
        message = str(cause)
        place = _PATH.search(message)
        problem = _PATH.sub("", message)
        raise InvalidInput(field + (place[1] if place else ""), _shown(data), problem) from cause


def decode_unlabelled(data: bytes, decoded: Decode, field: str) -> Any:
    """The value in bytes that another program left without an encoding: JSON, else text, and for Any the bytes."""
    for read in (decoded, lambda each: decoded(to_json(each.decode()))):
        try:
            return read(data)
        except UNREADABLE:
            continue
    return data if decoded is decode_any else decode(data, decoded, field)


def as_json(data: bytes) -> bytes | None:
    """Bytes without an encoding as JSON: they are JSON already, or they are text. None: they are neither."""
    try:
        decode_any(data)
    except UNREADABLE:
        try:
            return to_json(data.decode())
        except UnicodeDecodeError:
            return None
    return data


def schema(kind: Any) -> dict[str, Any] | None:
    """The JSON schema of a type; None for one that has none."""
    try:
        if mentions_model(kind):
            found: dict[str, Any] = _pydantic().TypeAdapter(kind).json_schema()
            return found
        return msgspec.json.schema(kind, schema_hook=_text_schema)
    except (TypeError, ValueError, NotImplementedError):
        return None


def _text_schema(kind: type) -> dict[str, Any]:
    if issubclass(kind, str):
        return {"type": "string"}
    raise NotImplementedError(f"{kind} has no schema")


def _to_builtins(value: object) -> object:
    """For the encoder: what JSON has, for what msgspec does not know."""
    if isinstance(value, str):  # ids, and other text with a type of its own
        return str.__str__(value)
    if _is_model(type(value)):
        return msgspec.Raw(value.model_dump_json(by_alias=True, round_trip=True).encode())  # type: ignore[attr-defined]
    raise TypeError(f"{type(value).__name__} is neither a plain type, a dataclass, a struct nor a pydantic model")


def _from_builtins(kind: Any, value: object) -> object:
    """For the decoder: the same way back."""
    if isinstance(kind, type) and issubclass(kind, str):
        return decode_id(kind, value)
    if _is_model(kind):
        # As JSON, because strict models read a time from JSON text and not from a Python one.
        return kind.model_validate_json(to_json(value))
    raise NotImplementedError(f"{kind} is neither a plain type, a dataclass, a struct nor a pydantic model")


to_json: Final = msgspec.json.Encoder(enc_hook=_to_builtins).encode


def _pydantic() -> Any:
    return sys.modules.get("pydantic")


def _is_model(kind: Any) -> bool:
    pydantic = _pydantic()
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def mentions_model(kind: Any) -> bool:
    """Whether it is a model, or has one among its parts."""
    return _is_model(kind) or any(mentions_model(part) for part in get_args(kind))


def is_record(kind: Any) -> bool:
    """Whether its values are JSON objects: of dataclasses, structs, and models that have no form of their own."""
    if not isinstance(kind, type):
        return False
    if issubclass(kind, msgspec.Struct):
        return not kind.__struct_config__.array_like
    if not _is_model(kind):
        return is_dataclass(kind) or is_typeddict(kind)
    own = kind.__pydantic_decorators__  # type: ignore[attr-defined]
    return not (issubclass(kind, _pydantic().RootModel) or own.model_validators or own.model_serializers)


def _shown(data: bytes | msgspec.Raw) -> object:
    """A scalar, for the message; never an object or a list, which may hold a secret."""
    text = bytes(data)
    if text[:1] in (b"{", b"["):
        return f"{len(text)} bytes of JSON"
    return text.decode(errors="replace")
