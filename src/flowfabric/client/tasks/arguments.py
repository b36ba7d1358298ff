"""Encode and decode the arguments of a task, checked against its signature and annotations.

The payload is `{"args": [...], "kwargs": {...}}`, as the caller wrote them. A call is decoded before it is sent, as the
worker will decode it, so that an argument the worker cannot read is refused here with the parameter's name.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final, TypeAlias, get_type_hints

from flowfabric.client.flows.result_refs import Envelope, Inputs, Place, fill, opened
from flowfabric.client.tasks import payloads
from flowfabric.client.tasks.options import OPTION_NAMES
from flowfabric.core import limits
from flowfabric.errors import InvalidInput

Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]

_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_QUOTED: Final = re.compile(r"'(\w+)'")
_PLAIN: Final = frozenset({int, str, bool, type(None)})  # JSON represents them exactly


def typed_signature(function: Callable[..., Any], name: str) -> inspect.Signature:
    """The function's signature with resolved annotations; a parameter without one is Any."""
    try:
        signature = inspect.signature(function)
        hints = get_type_hints(function, include_extras=True)
    except NameError as cause:
        problem = f"an annotation cannot be resolved: {cause}; import its type at run time, not only for type checking"
        raise InvalidInput("task", name, problem) from cause
    except (TypeError, ValueError) as cause:
        raise InvalidInput("task", name, f"its signature cannot be read: {cause}") from cause
    typed = [each.replace(annotation=hints.get(each.name, Any)) for each in signature.parameters.values()]
    return signature.replace(parameters=typed, return_annotation=hints.get("return", Any))


class ArgumentCodec:
    """Encodes and decodes the calls of one task."""

    def __init__(self, task: str, signature: inspect.Signature) -> None:
        self._task = task
        self._signature = signature
        parameters = signature.parameters.values()
        self._positional = [each for each in parameters if each.kind in _POSITIONAL]
        self._decoders = [payloads.decoder(each.annotation, each.name) for each in self._positional]
        self._by_name = {
            each.name: payloads.decoder(each.annotation, each.name) for each in parameters if each.kind in _BY_NAME
        }
        more_args = _of_kind(parameters, inspect.Parameter.VAR_POSITIONAL)
        more_kwargs = _of_kind(parameters, inspect.Parameter.VAR_KEYWORD)
        self._takes_more_args, self._takes_more_kwargs = bool(more_args), bool(more_kwargs)
        self._more_args = _variable(more_args)
        self._more_kwargs = _variable(more_kwargs)
        self._types = [each.annotation for each in self._positional]
        self._more_type = more_args[0].annotation if more_args else Any
        self._fitting = [self._names_after(count) for count in range(len(self._positional) + 1)]

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """The call as a payload; raises InvalidInput if it does not match the signature."""
        self._check(args, kwargs)
        try:
            payload = payloads.to_json({"args": args, "kwargs": kwargs})
        except payloads.UNWRITABLE:
            self._blame(args, kwargs)
            raise
        if len(payload) > limits.PAYLOAD_MAX_BYTES:
            limits.payload(f"arguments of {self._task}", payload)
        if kwargs or not self._is_plain(args):
            self._values(payloads.decode(payload, opened, "arguments"))
        return payload

    def encode_open(self, args: tuple[Any, ...], kwargs: dict[str, Any], given: Sequence[Place]) -> bytes:
        """A call with arguments that are filled in later; the others are checked now."""
        self._check(args, kwargs)
        touched = {place.path[0] for place in given}
        each: Iterable[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
        for key, value in each:
            data = payloads.encode(value, self._name_of(key))
            if key not in touched:
                payloads.decode(data, self._decoder_of(key), self._name_of(key))
        payload = payloads.to_json({"args": args, "kwargs": kwargs, "given": given})
        return limits.payload(f"arguments of {self._task}", payload)

    def has(self, name: str) -> bool:
        """Whether the function has a parameter of this name."""
        return name in self._signature.parameters

    def type_of(self, key: int | str) -> Any:
        """The annotation of the parameter at this position or with this name."""
        if isinstance(key, str):
            found = self._signature.parameters.get(key)
            return Any if found is None else found.annotation
        return self._types[key] if key < len(self._types) else self._more_type

    def _decoder_of(self, key: int | str) -> payloads.Decode:
        if isinstance(key, str):
            return self._by_name.get(key, self._more_kwargs)
        return self._decoders[key] if key < len(self._decoders) else self._more_args

    def _name_of(self, key: int | str) -> str:
        return key if isinstance(key, str) else self._name_at(key)

    def _is_plain(self, args: tuple[Any, ...]) -> bool:
        """Whether the worker can certainly decode these: plain values of exactly the annotated types."""
        for value, wanted in zip(args, chain(self._types, repeat(self._more_type)), strict=False):
            given = type(value)
            if given not in _PLAIN or (wanted is not given and wanted is not Any):
                return False
        return True

    def decode(self, payload: bytes, inputs: Inputs | None = None) -> Arguments:
        """The arguments in a payload; raises InvalidInput with the parameter's name if one does not fit."""
        envelope: Envelope = payloads.decode(payload, opened, "arguments")
        if envelope.given:
            fill(envelope, inputs or {})
        self._check(envelope.args, envelope.kwargs)
        return self._values(envelope)

    def _values(self, envelope: Envelope) -> Arguments:
        decoders, named = self._decoders, self._by_name
        if len(envelope.args) > len(decoders):
            decoders = decoders + [self._more_args] * (len(envelope.args) - len(decoders))
        try:
            args = [decode(raw) for decode, raw in zip(decoders, envelope.args, strict=False)]
            kwargs = {name: named.get(name, self._more_kwargs)(raw) for name, raw in envelope.kwargs.items()}
        except payloads.UNREADABLE:
            for at, (decode, raw) in enumerate(zip(decoders, envelope.args, strict=False)):
                payloads.decode(raw, decode, self._name_at(at))
            for name, raw in envelope.kwargs.items():
                payloads.decode(raw, named.get(name, self._more_kwargs), name)
            raise
        return tuple(args), kwargs

    def _name_at(self, at: int) -> str:
        return self._positional[at].name if at < len(self._positional) else f"args[{at}]"

    def _names_after(self, count: int) -> tuple[frozenset[str], frozenset[str]]:
        """After `count` positional arguments: the names that must be given, and those that may."""
        rest = [*self._positional[count:], *_keyword_only(self._signature)]
        must = {each.name for each in rest if each.default is inspect.Parameter.empty}
        return frozenset(must), frozenset(each.name for each in rest if each.kind in _BY_NAME)

    def _check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Check a call against the signature. The table covers ordinary calls; `bind` is far slower."""
        if len(args) < len(self._fitting) or self._takes_more_args:
            must, may = self._fitting[min(len(args), len(self._positional))]
            if must <= kwargs.keys() and (self._takes_more_kwargs or kwargs.keys() <= may):
                return
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as cause:
            raise self._misfit(str(cause), args, kwargs) from None

    def _misfit(self, problem: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> InvalidInput:
        quoted = _QUOTED.search(problem)
        field = quoted[1] if quoted else "arguments"
        hint = ""
        if field in kwargs and field in OPTION_NAMES:
            hint = f"; pass it as an option with {self._task}.with_options({field}=...)"
        problem = f"{problem}; {self._task} takes {self._signature}{hint}"
        return InvalidInput(field, f"{len(args)} positional, {len(kwargs)} named", problem)

    def _blame(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Encode each argument alone, so that the error names the one that has no JSON form."""
        for at, value in enumerate(args):
            payloads.encode(value, self._name_at(at))
        for name, value in kwargs.items():
            payloads.encode(value, name)


def _keyword_only(signature: inspect.Signature) -> list[inspect.Parameter]:
    return [each for each in signature.parameters.values() if each.kind is inspect.Parameter.KEYWORD_ONLY]


def _of_kind(parameters: Iterable[inspect.Parameter], kind: Any) -> list[inspect.Parameter]:
    return [each for each in parameters if each.kind is kind]


def _variable(parameters: list[inspect.Parameter]) -> payloads.Decode:
    """The decoder for `*args` or `**kwargs`; unused by functions without them."""
    return payloads.decoder(parameters[0].annotation, parameters[0].name) if parameters else payloads.decode_any
