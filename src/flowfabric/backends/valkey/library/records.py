"""Read stored values. An unreadable value raises a corruption error that names the record and, if known, the field.

A foreign or partial record must never surface as a bare KeyError or ValueError.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Final

import msgspec

from flowfabric.backends.valkey.wire.client import Client, Reply
from flowfabric.backends.valkey.wire.connection import ServerReplyError
from flowfabric.errors import BadReply, Corruption, InvalidInput

_UNREADABLE: Final = (
    LookupError, ValueError, TypeError, AttributeError, msgspec.MsgspecError, InvalidInput, BadReply,
)  # fmt: skip


class reading:  # noqa: N801 - used as a statement
    """`with reading("execution", execution_id):` turns errors in its block into a corruption of that record."""

    __slots__ = ("_name", "_what")

    def __init__(self, what: str, name: str = "") -> None:
        self._what = what
        self._name = name

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, _UNREADABLE) or (isinstance(error, Corruption) and "record" not in error.details):
            raise corruption(f"{self._what} {self._name}".rstrip(), error) from error


def corruption(record: str, cause: BaseException) -> Corruption:
    field = ""
    if isinstance(cause, InvalidInput):
        field, problem = cause.field, cause.message
    elif isinstance(cause, KeyError):
        field = str(cause.args[0])
        problem = f"{field} is missing"
    else:
        problem = getattr(cause, "message", "") or str(cause)
    return Corruption(f"{record} cannot be read: {problem}", record=record, field=field or None)


def number(record: Mapping[str, str], name: str) -> int:
    """Read a field as an integer."""
    text = record[name]
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} is {text!r}, expected an integer") from None


def optional_number(record: Mapping[str, str], name: str) -> int | None:
    """Read a field as an integer; None if it is absent or empty."""
    return number(record, name) if record.get(name) else None


async def read_directly(client: Client, command: str, key: str, *args: str) -> Reply:
    """Read one key; a value of another type is a corruption."""
    try:
        return await client.execute(command, key, *args, key=key, repeatable=True)
    except ServerReplyError as error:
        if error.prefix != "WRONGTYPE":
            raise
        raise corruption(key, error) from error
