"""What an engine accepts as settings."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from flowfabric.engine import EngineSettings
from flowfabric.engine.settings import _BOUNDS
from flowfabric.errors import InvalidInput
from tests.unit.looping import for_each

REFERENCE = Path(__file__).resolve().parents[3] / "docs/reference/engine.md"


def test_the_defaults_are_accepted_and_cannot_be_changed() -> None:
    settings = EngineSettings()
    with pytest.raises(FrozenInstanceError):
        settings.look_ms = 1  # type: ignore[misc]


@for_each(product([field.name for field in fields(EngineSettings)], [-1, 10**15, 1.5, "1000", True]))
def test_a_bad_value_is_refused_with_its_name(setting: tuple[str, Any]) -> None:
    name, value = setting
    with pytest.raises(InvalidInput, match=f"^invalid_input: {name}: must be ") as refused:
        EngineSettings(**{name: value})
    assert repr(value) in str(refused.value)


@pytest.mark.parametrize("name", [field.name for field in fields(EngineSettings) if field.default is not None])
def test_only_the_rules_of_retention_may_be_absent(name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        EngineSettings(**{name: None})  # type: ignore[arg-type]


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidInput, match="quick_look_ms: must be at most look_ms, which is 100"):
        EngineSettings(look_ms=100, quick_look_ms=101)
    with pytest.raises(InvalidInput, match="set_aside_ms: must be at most set_aside_most_ms, which is 10"):
        EngineSettings(set_aside_ms=11, set_aside_most_ms=10)
    with pytest.raises(InvalidInput, match="keep_last: must not be combined with retain_ms"):
        EngineSettings(retain_ms=1, keep_last=1)


def test_the_reference_has_every_setting_with_its_default_and_bounds() -> None:
    rows = REFERENCE.read_text()
    for field in fields(EngineSettings):
        default = "none" if field.default is None else field.default
        low, high = _BOUNDS[field.name]
        assert f"| `{field.name}` | {default} | {low}-{high} |" in rows, field.name
