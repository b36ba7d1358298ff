"""The Lua that is rendered from core says what core says."""

from __future__ import annotations

import pytest

from flowfabric.backends.valkey.library import generated
from flowfabric.core import limits
from flowfabric.core.rules.execution.transitions import SITUATIONS, Situation


def test_a_vector_names_what_differs_from_the_usual() -> None:
    assert generated.vector(SITUATIONS[Situation.FAILED]) == {
        "lifecycle_phase": "terminal", "terminal_outcome": "failed", "attempt_state": "attempt_terminal",
    }  # fmt: skip


def test_a_vector_that_keeps_the_attempt_state_does_not_name_it() -> None:
    kept = generated.vector(SITUATIONS[Situation.WAITING], keeps_attempt=True)
    assert kept == {
        "lifecycle_phase": "runnable", "eligibility_state": "eligible_now", "blocking_reason": "waiting_for_worker",
    }  # fmt: skip


def test_every_situation_and_every_bound_is_rendered() -> None:
    modules = generated.modules()
    for situation in Situation:
        assert f"\n  {situation.name} = " in modules["generated/vectors.lua"]
    for name in generated.BOUNDS:
        assert f"{name} = {getattr(limits, name)}" in modules["generated/bounds.lua"]


def test_tables_are_rendered_as_lua() -> None:
    assert generated.render({"a": 1, "b": "two"}) == '{a = 1, b = "two"}'
    assert generated.render({"outer": {"inner": 1}}) == "{\n  outer = {inner = 1},\n}"


@pytest.mark.parametrize("value", [None, 1.5, True, 'a"b', "two words"])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="cannot be rendered"):
        generated.render({"name": value})
