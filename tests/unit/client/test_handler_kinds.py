"""Which functions can be tasks, and what the others are told."""

# ruff: noqa: PLW0108 - lambdas that only call a function are what is tested here

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from flowfabric.client.tasks.task import Task, task
from flowfabric.errors import InvalidInput
from flowfabric.worker import Worker
from flowfabric.worker.executors.threads import is_async


async def fetch(x: int) -> int:
    return x


def double(x: int) -> int:
    return 2 * x


async def yields_later(x: int) -> AsyncIterator[int]:
    yield x


def yields(x: int) -> Iterator[int]:
    yield x


class Later:
    """Objects that can be called, and one whose method is async."""

    async def __call__(self, x: int) -> int:
        return x

    async def fetch(self, x: int) -> int:
        return x


class Yields:
    async def __call__(self, x: int) -> AsyncIterator[int]:
        yield x


LATER = Later()

GENERATORS: dict[str, Any] = {
    "async generator": yields_later,
    "generator": yields,
    "partial": functools.partial(yields_later, 1),
    "partial of a partial": functools.partial(functools.partial(yields, 1)),
    "object": Yields(),
}


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("register", [lambda f: task(name="x")(f), lambda f: Worker().task(name="x")(f)])
def test_a_generator_is_refused_with_the_way_to_stream(name: str, register: Callable[[Any], object]) -> None:
    with pytest.raises(InvalidInput, match=r"task: is an? (async )?generator.*await ctx\.emit\(value\).*got 'x'"):
        register(GENERATORS[name])


LAMBDAS: dict[str, Any] = {
    "of an async function": lambda x: fetch(x),
    "of a plain function": lambda x: double(x),
    "partial": functools.partial(lambda x: fetch(x), 1),
}


@pytest.mark.parametrize("name", LAMBDAS)
def test_a_lambda_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"task: is a lambda.* write `def` or `async def`"):
        Worker().task(name="x")(LAMBDAS[name])


FINE: dict[str, tuple[Any, bool]] = {
    "async function": (fetch, True),
    "plain function": (double, False),
    "partial of an async function": (functools.partial(fetch, 1), True),
    "partial of a plain function": (functools.partial(double, 1), False),
    "object with an async __call__": (LATER, True),
    "async method": (LATER.fetch, True),
    "class": (Later, False),
    "builtin": (len, False),
}


@pytest.mark.parametrize("name", FINE)
def test_everything_else_can_be_a_task(name: str) -> None:
    function, on_the_loop = FINE[name]
    made: Task[..., Any] = Worker().task(name="x")(function)
    assert is_async(made.function) is on_the_loop


def test_a_coroutine_is_no_function() -> None:
    with pytest.raises(InvalidInput, match="task: is a coroutine; pass the function without calling it"):
        task(fetch(1))  # type: ignore[call-overload]
