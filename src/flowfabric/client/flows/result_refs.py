"""Arguments that are results of other executions: left open in a payload, filled in by the worker.

A payload lists them by path, `"given": [[[0], "plan"], [["found", 2], ["search", "search-2"]]]`: the first argument is
the result of the edge `plan`; the third item of `found` is the list of results of the two named edges, as far as they
have one. A value that a caller passes is never mistaken for a reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from flowfabric.client.tasks import payloads
from flowfabric.errors import InvalidInput

Path: TypeAlias = tuple[int | str, ...]  # the argument by position or name, then keys into lists and objects
Inputs: TypeAlias = Mapping[str, msgspec.Raw]  # the results of a member's edges, by edge name

_NULL = msgspec.Raw(b"null")


class Place(msgspec.Struct, array_like=True, frozen=True):
    """The path of an argument, and the edge or list of edges that pass it."""

    path: Path
    refs: str | tuple[str, ...]


class Envelope(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An encoded call whose arguments are still JSON."""

    args: list[msgspec.Raw] = []
    kwargs: dict[str, msgspec.Raw] = {}
    given: list[Place] = []


opened = msgspec.json.Decoder(Envelope).decode


def fill(envelope: Envelope, inputs: Inputs) -> None:
    """Put the results into the arguments."""
    for place in envelope.given:
        _put(envelope, place.path, _value(place, inputs))
    envelope.given = []


def filled(payload: bytes, inputs: Inputs) -> bytes:
    """The call with its results filled in."""
    envelope: Envelope = payloads.decode(payload, opened, "arguments")
    if not envelope.given:
        return payload
    fill(envelope, inputs)
    return payloads.to_json(envelope)


def _value(place: Place, inputs: Inputs) -> msgspec.Raw:
    if isinstance(place.refs, str):
        if place.refs not in inputs:
            raise InvalidInput("given", place.refs, f"must be one of the edges {sorted(inputs)}")
        return inputs[place.refs]
    return msgspec.Raw(payloads.to_json([inputs[ref] for ref in place.refs if ref in inputs]))


def _put(envelope: Envelope, path: Path, value: msgspec.Raw) -> None:
    first, *rest = path
    arguments: Any = envelope.args if isinstance(first, int) else envelope.kwargs
    try:
        if rest:
            value = msgspec.Raw(payloads.to_json(_changed(payloads.decode_any(arguments[first]), rest, value)))
        arguments[first] = value
    except (IndexError, KeyError, TypeError) as cause:
        raise InvalidInput("given", list(path), "must lead to an argument") from cause


def _changed(value: Any, path: Sequence[int | str], given: msgspec.Raw) -> Any:
    inner = value
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = given
    return value


def as_inputs(given: Mapping[str, bytes | None]) -> Inputs:
    """Results by the names of their edges; an upstream without a result passes null."""
    return {ref: msgspec.Raw(result) if result else _NULL for ref, result in given.items()}
