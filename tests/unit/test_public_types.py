"""Whoever calls the public API can import the classes of its arguments from `flowfabric`."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

import flowfabric
from flowfabric.client.flows.builder import FlowBuilder
from flowfabric.client.limits import Budgets, Quotas
from flowfabric.worker import Middleware

# The store's own interface: its arguments are `flowfabric.core.contracts`, and only programs below the API use them.
_BELOW = {"open_backend", "__version__"}

# Classes whose instances the library makes: nobody calls their constructors.
_MADE_FOR_YOU = {
    *("ClaimedTask", "Context", "Flow", "FlowHandle", "FlowView", "Handle", "Node", "Progress", "Signal", "StreamItem"),
    *("SyncFabric", "SyncFlow", "SyncFlowHandle", "SyncHandle", "Waitpoint"),
}

# What a method takes is what another one gave: grants, nodes, events. Nobody creates one.
_HANDED_ON = {
    *("ClaimGrant", "ReclaimGrant", "ResumeGrant", "ResumeSignal", "Partition", "PartitionConfig"),
    *("PartitionFamily", "SignalLink", "Given", "Place", "Clock", "Timer"),
}

# Names that modules import for type checkers alone.
_NAMES = {**vars(collections.abc), **vars(flowfabric), "FlowBuilder": FlowBuilder, "Middleware": Middleware}

_PUBLIC = {name: getattr(flowfabric, name) for name in flowfabric.__all__ if name not in _BELOW}


@pytest.mark.parametrize("name", [*_PUBLIC, "Budgets", "Quotas"])
def test_the_classes_of_arguments_are_exported(name: str) -> None:
    public = {**_PUBLIC, "EngineBackend": None, "Budgets": Budgets, "Quotas": Quotas}[name]
    needed = {kind for function in _functions(name, public) for kind in _classes_of_arguments(function)}
    missing = {kind for kind in needed if kind.__name__ not in _HANDED_ON and kind not in _PUBLIC.values()}
    assert sorted(f"{kind.__module__}.{kind.__name__}" for kind in missing) == []


def test_the_walk_finds_what_is_deep_inside_of_options() -> None:
    found = set(_classes_of_arguments(flowfabric.TaskOptions.__init__))
    assert {flowfabric.RetryPolicy, flowfabric.FixedBackoff, flowfabric.DuplicateMode} <= found


def _functions(name: str, public: Any) -> Iterator[Callable[..., Any]]:
    """A function, or the constructor and the public methods of a class."""
    if inspect.isfunction(public):
        yield public
    if not inspect.isclass(public):
        return
    for each, member in inspect.getmembers(public, lambda it: inspect.isfunction(it) or inspect.ismethod(it)):
        is_constructor = each == "__init__" and name not in _MADE_FOR_YOU and not issubclass(public, Exception)
        if is_constructor or not each.startswith("_"):
            yield member


def _classes_of_arguments(function: Callable[..., Any]) -> Iterator[type]:
    function = inspect.unwrap(function)
    names = {**_NAMES, **getattr(function, "__globals__", {})}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.annotation is not parameter.empty:
            holder: Any = type("Holder", (), {"__annotations__": {"it": parameter.annotation}})
            yield from _classes(get_type_hints(holder, names)["it"], set())


def _classes(hint: Any, seen: set[Any]) -> Iterator[type]:
    """The classes of this package in a hint: in unions and collections, and in the fields of its data classes."""
    for part in get_args(hint):
        yield from _classes(part, seen)
    kind = get_origin(hint) or hint
    if not inspect.isclass(kind) or not kind.__module__.startswith("flowfabric") or kind in seen:
        return
    seen.add(kind)
    has_fields = issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind) or typing.is_typeddict(kind)
    if not typing.is_typeddict(kind) and (issubclass(kind, enum.Enum) or not issubclass(kind, str)):
        yield kind  # ids are text, and text is accepted in their place
    if has_fields and kind.__name__ not in _HANDED_ON:
        yield from (each for part in get_type_hints(kind).values() for each in _classes(part, seen))
