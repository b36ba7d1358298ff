"""Tasks: functions with a name and options; their arguments and results are encoded as JSON."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache, update_wrapper
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, Unpack, cast, get_args, get_origin, overload

from flowfabric.client.flows.result_refs import Inputs, Place
from flowfabric.client.tasks import payloads
from flowfabric.client.tasks.arguments import ArgumentCodec, Arguments, typed_signature
from flowfabric.client.tasks.handler_kinds import check_function
from flowfabric.client.tasks.options import OPTION_NAMES, Options, TaskOptions, check_names
from flowfabric.core import limits
from flowfabric.errors import InvalidInput

__all__ = ["Call", "Task", "TaskContext", "TaskDecorator", "TaskOptions", "named", "task"]


class TaskContext:
    """The worker's context. A first parameter of this type is not an argument: the worker passes it to the handler."""


P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
C = TypeVar("C", bound=TaskContext)

_DEFAULTS: Final = TaskOptions()

# Values of exactly these classes are decoded as what they were. Floats are not among them: NaN has no JSON form.
_FIT_AS_THEY_ARE: Final = frozenset({type(None), str, int, bool, bytes, list, dict})


class _TypedFunction:
    """The types of a function, resolved on first use: annotations may name types that are defined further down."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function, self._name = function, name

    @cached_property
    def takes_context(self) -> bool:
        first = next(iter(self._signature.parameters.values()), None)
        return first is not None and isinstance(first.annotation, type) and issubclass(first.annotation, TaskContext)

    @cached_property
    def arguments(self) -> ArgumentCodec:
        parameters = list(self._signature.parameters.values())
        taken = parameters[1:] if self.takes_context else parameters
        return ArgumentCodec(self._name, self._signature.replace(parameters=taken))

    @cached_property
    def result_type(self) -> Any:
        kind = self._signature.return_annotation
        return get_args(kind)[-1] if get_origin(kind) in (Awaitable, Coroutine) else kind

    @cached_property
    def result(self) -> payloads.Decode:
        return payloads.decoder(self.result_type, self.result_field)

    @cached_property
    def result_field(self) -> str:
        return f"result of {self._name}"

    @cached_property
    def fits_as_is(self) -> Any:
        """The class whose own values fit the annotation without a check; Any if everything fits, else None."""
        kind = self.result_type
        if kind is Any or kind is object:
            return Any
        return next((each for each in _FIT_AS_THEY_ARE if each is kind), type(None) if kind is None else None)

    @cached_property
    def _signature(self) -> inspect.Signature:
        return typed_signature(self._function, self._name)


class Task(Generic[P, R]):
    """A function that can be submitted: `P` are its parameters without the context, `R` is its result.

    Calling a task calls the function, which is useful in tests; the caller then passes the context, if it takes one.
    """

    __name__: str

    def __init__(
        self, function: Callable[..., Any], *, name: str | None = None, options: TaskOptions = _DEFAULTS
    ) -> None:
        check_function(function, name)
        self.name = _checked_name(name or _own_name(function))
        self.function = function
        self.options = options
        self._typed = _TypedFunction(function, self.name)  # shared with copies that have other options
        update_wrapper(self, function)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Task({self.name!r})"

    def with_options(self, **options: Unpack[Options]) -> Task[P, R]:
        """A copy of the task with these options."""
        changed = copy(self)
        changed.options = self.options.changed(**options)
        return changed

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """A call to submit later, or with many others; it is validated and encoded now."""
        return Call(self, self.encode_arguments(*args, **kwargs))

    def encode_arguments(self, /, *args: P.args, **kwargs: P.kwargs) -> bytes:
        """The call as a payload; raises InvalidInput with the parameter's name if it does not match the signature."""
        return self._typed.arguments.encode(args, kwargs)

    def encode_open(self, args: tuple[Any, ...], kwargs: dict[str, Any], given: Sequence[Place]) -> bytes:
        """The call as a payload whose arguments at these places are results of other executions, filled in later."""
        return self._typed.arguments.encode_open(args, kwargs, given)

    def decode_arguments(self, payload: bytes, inputs: Inputs | None = None) -> Arguments:
        """The arguments in a payload, decoded as the annotated types."""
        return self._typed.arguments.decode(payload, inputs)

    def encode_result(self, value: R) -> bytes:
        """The result as a payload; raises InvalidInput with the field that does not fit the annotation.

        It is decoded as a client will decode it, unless its class alone says that it fits.
        """
        typed = self._typed
        payload = payloads.encode(value, typed.result_field)
        wanted = typed.fits_as_is
        if type(value) is not wanted and wanted is not Any:
            payloads.decode(payload, typed.result, typed.result_field)
        return payload

    def decode_result(self, payload: bytes, *, is_labelled: bool = True) -> R:
        """The result in a payload; without an encoding, from another program, it may also be plain text."""
        decode = payloads.decode if is_labelled else payloads.decode_unlabelled
        return cast("R", decode(payload, self._typed.result, self._typed.result_field))

    @property
    def result_type(self) -> Any:
        """The annotated return type; Any without an annotation."""
        return self._typed.result_type

    def has_parameter(self, name: str) -> bool:
        return self._typed.arguments.has(name)

    def parameter_type(self, key: int | str) -> Any:
        """The annotation of the parameter at this position or with this name."""
        return self._typed.arguments.type_of(key)

    @property
    def takes_context(self) -> bool:
        """Whether the function's first parameter is the worker's context."""
        return self._typed.takes_context


@dataclass(frozen=True, slots=True)
class Call(Generic[R_co]):
    """A task and the encoded arguments of one call."""

    task: Task[..., R_co]
    payload: bytes

    def __post_init__(self) -> None:
        limits.payload("payload", self.payload)


class TaskDecorator:
    """Makes tasks of functions: `@task`, or with options `@task(lane="agents", retry=3)`."""

    def __init__(self, *, name: str | None = None, options: TaskOptions = _DEFAULTS) -> None:
        self._name, self._options = name, options

    @overload
    def __call__(self, function: Callable[Concatenate[C, P], Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[C, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def __call__(
        self, function: None = None, /, *, name: str | None = None, **options: Unpack[Options]
    ) -> TaskDecorator: ...
    def __call__(
        self, function: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any
    ) -> Any:
        name, chosen = name or self._name, self._options.changed(**options)
        if function is None:
            return TaskDecorator(name=name, options=chosen)
        return Task(function, name=name, options=chosen)


task: Final = TaskDecorator()


def named(name: str, **options: Unpack[Options]) -> Task[..., Any]:
    """A task whose function is in another program: any arguments, any result."""
    check_names(options)

    def elsewhere(*args: Any, **kwargs: Any) -> Any:
        raise InvalidInput("task", name, "was created by name; its function is not in this program")

    return Task(elsewhere, name=name, options=TaskOptions(**options))


def by_name(
    name: str, kwargs: dict[str, Any], known: Task[..., Any] | None = None
) -> tuple[Task[..., Any], dict[str, Any]]:
    """A task by its name, and its arguments; keyword arguments named like an option are treated as options.

    known: the task with the options that workers have registered, which given ones override.
    """
    options: Any = given_options(kwargs)
    task = known or _named(name)
    if not options:
        return task, kwargs
    return task.with_options(**options), {key: value for key, value in kwargs.items() if key not in options}


def given_options(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The options among the keyword arguments of a task that is given by name."""
    return {key: value for key, value in kwargs.items() if key in OPTION_NAMES}


_named = lru_cache(maxsize=1_000)(named)


def _own_name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", "<none>")
    if name.startswith("<"):  # a lambda, or a callable object
        raise InvalidInput("name", function, "must be given, because the function has no name")
    return str(name)


def _checked_name(name: str) -> str:
    return limits.label("name", name, 1, limits.EXECUTION_KIND_MAX_BYTES)
