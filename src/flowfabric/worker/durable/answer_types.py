"""The form of a wait: its question and the type of its answer, as everyone who answers may read them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from flowfabric.client.tasks import payloads
from flowfabric.core import limits
from flowfabric.core.forms import Decoder, WaitForm


def form_of(kind: Any, question: str) -> WaitForm | None:
    """None for a wait without a question that takes any answer."""
    if kind is Any:
        return WaitForm(question=question) if question else None
    try:
        schema, decoder = _kept(kind)
    except TypeError:  # an unhashable type
        schema, decoder = _described(kind)
    return WaitForm(question=question, schema=schema, decoder=decoder) if question or schema is not None else None


def _described(kind: Any) -> tuple[dict[str, Any] | None, Decoder]:
    """Its schema, unless it has none or it is too large; then only the worker judges the answer."""
    schema = payloads.schema(kind)
    if schema is None or len(payloads.to_json(schema)) > limits.ANSWER_SCHEMA_MAX_BYTES:
        return None, "own"
    return schema, payloads.decoder_kind(kind)


_kept = lru_cache(maxsize=512)(_described)
