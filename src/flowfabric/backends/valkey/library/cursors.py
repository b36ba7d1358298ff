"""Opaque cursors: a position encoded as text."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from flowfabric.errors import InvalidInput


def encode_cursor(kind: str, *parts: object) -> str:
    """Encode a position; `kind` keeps the cursors of different lists apart."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode([kind, *parts])).rstrip(b"=").decode()


def decode_cursor(kind: str, text: str, types: Any) -> Any:
    """Decode a cursor; text that is not a cursor of this kind is refused."""
    try:
        padded = text.encode() + b"=" * (-len(text) % 4)
        found, *parts = msgspec.msgpack.decode(base64.b64decode(padded, altchars=b"-_", validate=True))
        if found == kind:
            return msgspec.convert(parts, types)
    except (ValueError, TypeError, binascii.Error, msgspec.MsgspecError):
        pass
    raise InvalidInput("cursor", text, f"must be a cursor that an earlier page of {kind} gave")
