"""Encode frame values: text and bytes unchanged, everything else as JSON; the frame's encoding says which."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from flowfabric.client.tasks import payloads
from flowfabric.core import limits
from flowfabric.errors import InvalidInput

TEXT: Final = "utf8"
BINARY: Final = "binary"
JSON: Final = payloads.ENCODING


def encode(value: object) -> tuple[bytes, str]:
    """The payload of a frame and its encoding."""
    if type(value) is str:
        payload = _text(value)
        return (payload if len(payload) <= limits.FRAME_PAYLOAD_MAX_BYTES else _checked(payload)), TEXT
    if isinstance(value, bytes | bytearray | memoryview):
        return _checked(bytes(value)), BINARY
    return encode_json(value), JSON


def encode_json(value: object) -> bytes:
    """A JSON payload, whatever the value's type."""
    return _checked(payloads.encode(value, "value"))


def decode(payload: bytes, encoding: str | None) -> Any:
    """The value of a frame. A payload that does not match its encoding, or has an unknown one, stays bytes."""
    try:
        if encoding == TEXT or encoding is None:
            return payload.decode()
        if encoding == JSON:
            return payloads.decode_any(payload)
    except (UnicodeDecodeError, msgspec.DecodeError):
        return payload
    return payload


def _text(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise InvalidInput("value", value, "must be valid Unicode, without lone surrogates") from None


def _checked(payload: bytes) -> bytes:
    if len(payload) > limits.FRAME_PAYLOAD_MAX_BYTES:
        problem = (
            f"must be at most {limits.FRAME_PAYLOAD_MAX_BYTES} bytes long, but has {len(payload)}; emit it in pieces"
        )
        raise InvalidInput("value", payload[:16], problem, code="retention_limit_exceeded")
    return payload
