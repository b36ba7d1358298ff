"""What a refusal of the store says to a Python caller."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import flowfabric.backends.valkey
from flowfabric.backends.valkey.library.refusals import refusal

LUA = Path(flowfabric.backends.valkey.__file__).parent / "lua"
STATEFUL = re.compile(r'reply\.refuse\("(\w+)", (?:record\.public_state\(x\)|w\.state)')


def test_the_state_that_stood_in_the_way_is_named() -> None:
    error = refusal("resume_execution", "{fp:1}:x", "execution_not_suspended", ["waiting"])
    assert str(error).endswith("the execution is not suspended (state waiting)")
    assert error.details["state"] == "waiting"


@pytest.mark.parametrize("state", ["suspended", "active", "completed"])
def test_a_signal_that_nothing_takes_is_told_so_in_every_state(state: str) -> None:
    error = refusal("signal_execution", "{fp:1}:x", "target_not_signalable", [state])
    assert str(error).endswith(f"no open waitpoint accepts the signal (state {state})")


def test_a_foreign_waitpoint_may_be_of_another_execution() -> None:
    error = refusal("suspend_execution", "{fp:1}:x", "invalid_waitpoint_for_execution", [])
    assert "belongs to another execution, or to another attempt" in error.message


def test_free_text_stands_for_itself() -> None:
    error = refusal("create_execution", "{fp:1}:x", "invalid_policy_json", ["malformed"])
    assert str(error).endswith("(malformed)")


def test_every_refusal_that_tells_a_state_has_a_name_for_it() -> None:
    codes = {code for path in LUA.rglob("*.lua") for code in STATEFUL.findall(path.read_text())}
    assert len(codes) > 5
    for code in codes:
        assert "detail_0" not in refusal("operation", "{fp:1}:x", code, ["active"]).details, code
