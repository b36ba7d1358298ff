"""Call server functions by name: named keys and arguments in, reply fields out, refusals as errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.contract import FunctionSpec
from flowfabric.backends.valkey.library.loader import Library
from flowfabric.backends.valkey.library.refusals import refusal
from flowfabric.backends.valkey.wire.client import Reply
from flowfabric.core.ids import ExecutionId
from flowfabric.core.partition import PartitionConfig
from flowfabric.errors import BadReply, Corruption, InvalidInput

T = TypeVar("T")

_AT_ONCE = 256

Value = str | bytes | int | None | Iterable[str | bytes]


class Fields:
    """The status word and the fields of one successful reply."""

    __slots__ = ("operation", "status", "values")

    def __init__(self, operation: str, status: str, values: Sequence[Reply]) -> None:
        self.operation = operation
        self.status = status
        self.values = values

    def text(self, at: int) -> str:
        try:
            return self.values[at].decode()  # type: ignore[union-attr]  # nearly always
        except (IndexError, AttributeError):
            return self.raw(at).decode()
        except UnicodeDecodeError as cause:
            raise Corruption(f"{self.operation}: field {at} is not text: {self.values[at]!r:.80}") from cause

    def raw(self, at: int) -> bytes:
        value = self.values[at] if at < len(self.values) else b""
        if not isinstance(value, bytes):
            raise BadReply(f"{self.operation}: field {at} is {type(value).__name__}, expected text")
        return value

    def number(self, at: int) -> int:
        text = self.text(at)
        try:
            return int(text)
        except ValueError as cause:
            raise Corruption(f"{self.operation}: field {at} is {text!r}, expected a number") from cause

    def mapping(self, at: int) -> dict[str, str]:
        return flat_to_dict(self.values[at])

    def mappings(self, at: int) -> list[dict[str, str]]:
        return [flat_to_dict(item) for item in self._list(at)]

    def texts(self, at: int) -> list[str]:
        """A field as a list of text."""
        return self._row(self.values[at])

    def rows(self, at: int) -> list[list[str]]:
        """A field as a list of lists of text."""
        return [self._row(each) for each in self._list(at)]

    def lists(self, at: int) -> list[list[Any]]:
        """A field as a list of lists of text and bytes."""
        return [each for each in self._list(at) if isinstance(each, list)]

    def entries(self, at: int) -> list[Fields]:
        """A field as a list of rows, each with its own fields."""
        return [Fields(self.operation, self.status, each) for each in self.lists(at)]

    def _list(self, at: int) -> list[Reply]:
        value = self.values[at]
        if not isinstance(value, list):
            raise BadReply(f"{self.operation}: field {at} is not a list")
        return value

    def _row(self, row: Reply) -> list[str]:
        if not isinstance(row, list):
            raise BadReply(f"{self.operation}: expected a list of rows")
        return [cell.decode(errors="surrogateescape") if isinstance(cell, bytes) else str(cell) for cell in row]


class FunctionCaller:
    """Calls functions of the loaded library; the contract of each file is the only source of positions."""

    def __init__(self, library: Library, partitions: PartitionConfig, namespaces: Sequence[str] | None = None) -> None:
        """With namespaces, every call is a tenant's: it sees nothing outside of them."""
        self._library = library
        self._functions = library.bundle.functions
        self._partitions = partitions
        self._tags = keys.known_tags(partitions)
        self._namespaces = namespaces

    @property
    def is_scoped(self) -> bool:
        """Whether calls are made for a tenant."""
        return self._namespaces is not None

    def sees(self, namespace: str) -> bool:
        """Whether the caller may see this namespace."""
        return self._namespaces is None or namespace in self._namespaces

    def call_execution(self, operation: str, execution_id: ExecutionId, **args: Value) -> Coroutine[Any, Any, Fields]:
        """Call a function whose first key is the execution's core key."""
        spec = self._functions[operation]
        if "execution_id" in spec.positions:
            args["execution_id"] = execution_id
        core = self.core(execution_id)
        if len(spec.sent_keys) == 1:  # nearly all of them
            return self._invoke(spec, [core, keys.noop(execution_id.tag)], args, execution_id)
        return self._invoke(spec, key_list(spec, {"core": core}), args, execution_id)

    def core(self, execution_id: ExecutionId) -> str:
        """The core key of an execution; its partition must exist in this store."""
        if execution_id.tag not in self._tags:
            raise self.no_partition("execution_id", execution_id)
        return keys.core(execution_id)

    def is_partition(self, tag: str) -> bool:
        """Whether the store has this partition. No engine visits, and no list shows, any other."""
        return tag in self._tags

    def no_partition(self, field: str, value: str) -> InvalidInput:
        count = self._partitions.num_flow_partitions
        problem = f"must be of one of the store's {count} partitions, 0 to {count - 1}"
        return InvalidInput(field, value, problem)

    def call_partition(self, operation: str, tag: str, **args: Value) -> Coroutine[Any, Any, Fields]:
        """Call a function whose only key is the partition's event log."""
        return self.call(operation, {"partition": keys.events(tag)}, args, subject=tag)

    async def call_bare(
        self, operation: str, named_keys: Mapping[str, str], args: Mapping[str, Value], *, subject: str = ""
    ) -> Fields:
        """Call the one function of the public wire whose success is a bare status word."""
        spec = self._functions[operation]
        listed = self._listed(spec, named_keys, subject)
        reply = await self._send(spec, listed, argument_list(spec, args))
        is_bare = isinstance(reply, list) and reply and isinstance(reply[0], bytes)
        return parse_envelope(operation, [1, *reply] if is_bare else reply, subject)  # type: ignore[misc]

    def call(
        self, operation: str, named_keys: Mapping[str, str], args: Mapping[str, Value], *, subject: str = ""
    ) -> Coroutine[Any, Any, Fields]:
        spec = self._functions[operation]
        return self._invoke(spec, self._listed(spec, named_keys, subject), args, subject)

    def _listed(self, spec: FunctionSpec, named_keys: Mapping[str, str], subject: str) -> list[str]:
        """The keys in order. All are of one partition, which must exist in this store."""
        listed = key_list(spec, named_keys)
        if listed and (tag := keys.tag_of(listed[0])) not in self._tags:
            of_execution = isinstance(subject, ExecutionId)
            raise self.no_partition("execution_id" if of_execution else "partition", subject if of_execution else tag)
        return listed

    async def _invoke(self, spec: FunctionSpec, listed: list[str], args: Mapping[str, Value], subject: str) -> Fields:
        for name, value in args.items():
            if isinstance(value, ExecutionId) and value.tag not in self._tags:
                raise self.no_partition(name, value)
        reply = await self._send(spec, listed, argument_list(spec, args))
        return parse_envelope(spec.operation, reply, subject)

    def _send(self, spec: FunctionSpec, listed: list[str], args: list[str | bytes | int]) -> Coroutine[Any, Any, Reply]:
        return self._library.invoke(spec, listed, args, self._namespaces)


def key_list(spec: FunctionSpec, named: Mapping[str, str]) -> list[str]:
    """The keys in order. Keys that the function derives are left out at the end, and placeholders elsewhere.

    Every call has at least one placeholder. It never exists, so while a slot migrates key by key the servers reply
    TRYAGAIN; without it, a function would run on the half of the partition that one server has.
    """
    if not named:
        return []
    placeholder = keys.noop(keys.tag_of(next(iter(named.values()))))
    listed = [named.get(name, placeholder) for name in spec.sent_keys]
    return listed if placeholder in listed else [*listed, placeholder]


def argument_list(spec: FunctionSpec, named: Mapping[str, Value]) -> list[str | bytes | int]:
    """The arguments in order. None is left out at the end, and empty elsewhere."""
    positions, last, plain = spec.positions, spec.required_args - 1, len(spec.defaults)
    out: list[str | bytes | int] = [*spec.defaults]
    rest: Iterable[str | bytes] = ()
    for name, value in named.items():
        at = positions.get(name)
        if at is None:
            raise TypeError(f"{spec.function} takes no {sorted(named.keys() - positions.keys())}")
        if value is None:
            continue
        if at == plain:
            rest = _items(value)
            continue
        out[at] = value  # type: ignore[assignment]  # the packer refuses what is no value
        if at > last:
            last = at
    return [*out, *rest] if rest else out[: last + 1]


def parse_envelope(operation: str, reply: Reply, subject: str) -> Fields:
    """Split `{1, status, fields...}`; raise the refusal in `{0, code, details...}`."""
    if not isinstance(reply, list) or len(reply) < 2 or not isinstance(reply[1], bytes):
        raise BadReply(f"{operation}: not an envelope: {reply!r:.200}")
    word = reply[1].decode()
    if reply[0] == 1:
        return Fields(operation, word, reply[2:])
    details = [part.decode(errors="replace") for part in reply[2:] if isinstance(part, bytes)]
    raise refusal(operation, subject, word, details)


def flat_to_dict(flat: Reply) -> dict[str, str]:
    """A flat list of fields and values as a dict of text."""
    if not isinstance(flat, list):
        raise BadReply(f"expected a list of fields, got {type(flat).__name__}")
    text = [item.decode(errors="surrogateescape") for item in flat if isinstance(item, bytes)]
    return dict(zip(text[::2], text[1::2], strict=True))


def _items(value: str | bytes | int | Iterable[str | bytes]) -> Iterable[str | bytes]:
    if isinstance(value, str | bytes | int):
        raise TypeError(f"expected several values, got {value!r}")
    return value


async def at_once(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Run the calls with bounded concurrency; raise the first error after the running calls have ended.

    Calls are created as they start, so none is left over if the caller is cancelled.
    """
    rest, done = iter(calls), list[T]()
    while some := list(islice(rest, _AT_ONCE)):
        if len(some) == 1:
            done.append(await some[0])
            continue
        for result in await asyncio.gather(*some, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            done.append(result)
    return done
