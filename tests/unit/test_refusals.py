"""What a refusal of the store says to a Python caller."""

from __future__ import annotations

import re
from pathlib import Path

import flowfabric.backends.valkey
from flowfabric.backends.valkey.refusals import refusal

LUA = Path(flowfabric.backends.valkey.__file__).parent / "lua"
STATEFUL = re.compile(r'reply\.refuse\("(\w+)", (?:record\.public_state\(x\)|w\.state)')


def test_the_state_that_stood_in_the_way_is_named() -> None:
    error = refusal("resume_execution", "{fp:1}:x", "execution_not_suspended", ["waiting"])
    assert str(error).endswith("it is not suspended (state waiting)")
    assert error.details["state"] == "waiting"


def test_free_text_stands_for_itself() -> None:
    error = refusal("create_execution", "{fp:1}:x", "invalid_policy_json", ["malformed"])
    assert str(error).endswith("(malformed)")


def test_every_refusal_that_tells_a_state_has_a_name_for_it() -> None:
    codes = {code for path in LUA.rglob("*.lua") for code in STATEFUL.findall(path.read_text())}
    assert len(codes) > 5
    for code in codes:
        assert "detail_0" not in refusal("operation", "{fp:1}:x", code, ["active"]).details, code
