"""Decode arguments, encode results; codec errors are not retryable."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from flowfabric.client.flows.result_refs import Inputs, as_inputs, filled
from flowfabric.client.tasks import payloads
from flowfabric.client.tasks.arguments import Arguments
from flowfabric.client.tasks.payloads import ENCODING
from flowfabric.client.tasks.task import Task
from flowfabric.core.contracts import ExecutionInput
from flowfabric.errors import InvalidInput
from flowfabric.worker.attempts.outcomes import INVALID_PAYLOAD, INVALID_RESULT, Fail


def decoded(
    task: Task[..., Any], payload: bytes, encoding: str | None, inputs: Sequence[ExecutionInput] = ()
) -> Arguments:
    """The arguments in a payload, with results of upstream members filled in; an empty payload has no arguments."""
    _check_encoding("payload", encoding)
    try:
        return task.decode_arguments(payload or b"{}", _given(inputs) if inputs else None)
    except InvalidInput as error:
        raise Fail(str(error), category=INVALID_PAYLOAD, retryable=False) from error


def completed_payload(payload: bytes, inputs: Sequence[ExecutionInput]) -> bytes:
    """The payload with results of upstream members filled in."""
    try:
        return filled(payload, _given(inputs)) if inputs and payload else payload
    except InvalidInput as error:
        raise Fail(str(error), category=INVALID_PAYLOAD, retryable=False) from error


def _given(inputs: Sequence[ExecutionInput]) -> Inputs:
    for each in inputs:
        if each.payload:
            _check_encoding(f"result of {each.upstream_execution_id.short}", each.encoding)
    return as_inputs({each.data_passing_ref: _as_json(each) for each in inputs})


def _as_json(given: ExecutionInput) -> bytes | None:
    """Workers of other languages may send no encoding: accept JSON and text."""
    if not given.payload or given.encoding is not None:
        return given.payload
    text = payloads.as_json(given.payload)
    if text is None:
        reason = f"the result of {given.upstream_execution_id.short} is neither JSON nor text"
        raise Fail(reason, category=INVALID_PAYLOAD, retryable=False)
    return text


def _check_encoding(what: str, encoding: str | None) -> None:
    if encoding not in (ENCODING, None):
        reason = f"the {what} is {encoding}, this worker reads {ENCODING}"
        raise Fail(reason, category=INVALID_PAYLOAD, retryable=False)


def encoded(task: Task[..., Any], value: Any) -> bytes:
    try:
        return task.encode_result(value)
    except InvalidInput as error:
        raise Fail(str(error), category=INVALID_RESULT, retryable=False) from error


def reader(kind: Any, field: str) -> payloads.Decode:
    """A cached decoder from JSON to this type."""
    try:
        return _kept_reader(kind, field)
    except TypeError:  # an unhashable type
        return payloads.decoder(kind, field)


@lru_cache(maxsize=512)
def _kept_reader(kind: Any, field: str) -> payloads.Decode:
    return payloads.decoder(kind, field)
