"""Requests and results of the ports, read from the protocols, so that they are written only once."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import limits


class Signature(NamedTuple):
    """One port. `request` is its struct, or a struct made of its keyword arguments."""

    name: str
    request: type[msgspec.Struct]
    takes_struct: bool
    result: Any
    summary: str

    async def call(self, backend: EngineBackend, request: msgspec.Struct) -> Any:
        """Call the port with a request."""
        port = getattr(backend, self.name)
        if self.takes_struct:
            return await port(request)
        return await port(**{name: getattr(request, name) for name in request.__struct_fields__})

    @property
    def may_be_nothing(self) -> bool:
        return type(None) in get_args(self.result)


@cache
def signature(name: str) -> Signature:
    port = getattr(EngineBackend, name)
    hints = get_type_hints(port, include_extras=True)
    parameters = [each for each in inspect.signature(port).parameters.values() if each.name != "self"]
    result = hints["return"]
    summary = inspect.getdoc(port) or ""
    if [each.name for each in parameters] == ["args"]:
        return Signature(name, hints["args"], takes_struct=True, result=result, summary=summary)
    return Signature(name, _struct(name, parameters, hints), takes_struct=False, result=result, summary=summary)


def _struct(name: str, parameters: list[inspect.Parameter], hints: dict[str, Any]) -> type[msgspec.Struct]:
    fields: list[Any] = []
    for each in parameters:
        kind = _plain(hints[each.name])
        fields.append((each.name, kind) if each.default is each.empty else (each.name, kind, each.default))
    title = "".join(part.capitalize() for part in name.split("_")) + "Request"
    return msgspec.defstruct(title, fields, kw_only=True, frozen=True, forbid_unknown_fields=True)


def _plain(kind: Any) -> Any:
    """A type that msgspec decodes: a sequence becomes a tuple."""
    if get_origin(kind) is not Sequence:
        return kind
    (item,) = get_args(kind)
    return Annotated[tuple.__class_getitem__((item, ...)), msgspec.Meta(max_length=limits.REQUEST_MAX_ITEMS)]
