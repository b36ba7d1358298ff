"""Values in and out of a handler; what cannot be read or written is a failure that no retry mends."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from flowfabric.client import payloads
from flowfabric.client.arguments import Arguments
from flowfabric.client.payloads import ENCODING
from flowfabric.client.tasks import Task
from flowfabric.errors import InvalidInput
from flowfabric.worker.outcomes import INVALID_PAYLOAD, INVALID_RESULT, Fail


def decoded(task: Task[..., Any], payload: bytes, encoding: str | None) -> Arguments:
    """The arguments in a payload; an empty payload is a call without any."""
    if encoding not in (ENCODING, None):
        reason = f"the payload is {encoding}, this worker reads {ENCODING}"
        raise Fail(reason, category=INVALID_PAYLOAD, retryable=False)
    try:
        return task.decode_arguments(payload or b"{}")
    except InvalidInput as error:
        raise Fail(str(error), category=INVALID_PAYLOAD, retryable=False) from error


def encoded(task: Task[..., Any], value: Any) -> bytes:
    try:
        return task.encode_result(value)
    except InvalidInput as error:
        raise Fail(str(error), category=INVALID_RESULT, retryable=False) from error


def reader(kind: Any, field: str) -> payloads.Decode:
    """What turns JSON into a value of this type; those of types that were asked for before are kept."""
    try:
        return _kept_reader(kind, field)
    except TypeError:  # a type that cannot be a key
        return payloads.decoder(kind, field)


@lru_cache(maxsize=512)
def _kept_reader(kind: Any, field: str) -> payloads.Decode:
    return payloads.decoder(kind, field)
