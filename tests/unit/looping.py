"""One test that tries many cases and names every case that fails; thousands of pytest items would cost seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def for_each(cases: Iterable[Any]) -> Callable[[Callable[[Any], None]], Callable[[], None]]:
    """Turn a check of one case into a test of all of them, like `parametrize` but as one item."""
    listed = list(cases)
    assert listed, "no cases: the test would pass without a check"

    def decorate(check: Callable[[Any], None]) -> Callable[[], None]:
        def test() -> None:
            problems = [problem for case in listed if (problem := _problem(check, case))]
            assert not problems, f"{len(problems)} of {len(listed)} cases fail:\n" + "\n".join(problems)

        test.__name__, test.__qualname__ = check.__name__, check.__qualname__
        test.__doc__, test.__module__ = check.__doc__, check.__module__
        return test

    return decorate


def _problem(check: Callable[[Any], None], case: Any) -> str:
    try:
        check(case)
    except (Exception, pytest.fail.Exception) as error:  # `pytest.raises` fails with an outcome, not an Exception
        return f"{_name(case)}: {type(error).__name__}: {error}"
    return ""


def _name(case: Any) -> str:
    if isinstance(case, tuple):
        return "-".join(_name(part) for part in case)
    return case.__name__ if isinstance(case, type) else str(case)
