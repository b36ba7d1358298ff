"""Which names of steps are in the code of a handler."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.worker.durable.code_names import caller_key, names_in

NAME = "from a constant"


def literal(ctx: Any) -> None:
    ctx.step("charge", print, "refund")


def made(ctx: Any, number: int) -> None:
    ctx.step(f"page {number}", print)


def given(ctx: Any, name: str) -> None:
    ctx.step(name, print)


def constant(ctx: Any) -> None:
    ctx.step(NAME, print)


def calling(ctx: Any) -> None:
    def inner() -> None:
        ctx.step("inner", print)

    inner()
    literal(ctx)


class Shop:
    def sell(self, ctx: Any) -> None:
        ctx.step("sell", print)


shop = Shop()


def through_an_object(ctx: Any) -> None:
    shop.sell(ctx)


@pytest.mark.parametrize(
    ("function", "there", "gone"),
    [
        (literal, ["charge"], ["refund", "char", "pay"]),
        (made, ["page 1", "page 12"], ["leaf 1"]),
        (constant, [NAME], ["pay"]),
        (calling, ["inner", "charge"], ["pay"]),
        (through_an_object, ["sell"], ["pay"]),
    ],
)
def test_a_name_is_there_or_has_gone(function: Any, there: list[str], gone: list[str]) -> None:
    names = names_in(function)
    assert [name for name in (*there, *gone) if names.has_gone(name, [])] == gone


def test_a_name_in_use_is_no_piece_of_another() -> None:
    assert not names_in(made).has_gone("page 1", ["charge"])
    assert names_in(made).has_gone("page 1", ["page "])


def test_code_that_cannot_be_read_has_no_callers() -> None:
    assert not names_in(print).callers
    assert not names_in(Shop).callers


def test_a_caller_is_known_in_the_code_that_has_it() -> None:
    keys: list[str] = []

    ours: dict[str, Any] = {"__name__": "flowfabric.worker", "keys": keys, "caller_key": caller_key}
    exec("class Ctx:\n    def step(self, *_): (lambda: keys.append(caller_key()))()", ours)
    calling(ours["Ctx"]())  # functions of ours in between do not count
    inner, direct = keys
    assert {inner, direct} <= names_in(calling).callers
    assert direct in names_in(literal).callers
    assert inner not in names_in(literal).callers
