"""Arguments that are results of other executions: left open in a payload, filled in where the call is run.

A payload says where they go by path, `"given": [[[0], "plan"], [["found", 2], ["search", "search-2"]]]`: the first
argument is what the edge called `plan` gives, the third of `found` a list of what the edges named there give, as far
as they do. So no value that a caller passes is ever mistaken for one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from flowfabric.client.tasks import payloads
from flowfabric.errors import InvalidInput

Path: TypeAlias = tuple[int | str, ...]  # the argument by position or name, then on into lists and objects
Inputs: TypeAlias = Mapping[str, msgspec.Raw]  # what the edges of a member give, by their names

_NULL = msgspec.Raw(b"null")


class Place(msgspec.Struct, array_like=True, frozen=True):
    """Where something goes, and the edge, or the list of edges, that gives it."""

    path: Path
    refs: str | tuple[str, ...]


class Envelope(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A call on the wire, its arguments still encoded."""

    args: list[msgspec.Raw] = []
    kwargs: dict[str, msgspec.Raw] = {}
    given: list[Place] = []


opened = msgspec.json.Decoder(Envelope).decode


def fill(envelope: Envelope, inputs: Inputs) -> None:
    """Put what is given where it goes."""
    for place in envelope.given:
        _put(envelope, place.path, _value(place, inputs))
    envelope.given = []


def filled(payload: bytes, inputs: Inputs) -> bytes:
    """The same call with nothing left open."""
    envelope: Envelope = payloads.decode(payload, opened, "arguments")
    if not envelope.given:
        return payload
    fill(envelope, inputs)
    return payloads.to_json(envelope)


def _value(place: Place, inputs: Inputs) -> msgspec.Raw:
    if isinstance(place.refs, str):
        if place.refs not in inputs:
            raise InvalidInput("given", place.refs, f"must be given by one of the edges {sorted(inputs)}")
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
    """Results by the names of their edges; who left none gives null."""
    return {ref: msgspec.Raw(result) if result else _NULL for ref, result in given.items()}
