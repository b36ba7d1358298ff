"""The lib modules on the real VM: a throw-away library exposes their functions."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import valkey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowfabric.backends.valkey.library.bundle import build
from flowfabric.core.policy import ExponentialBackoff, FixedBackoff, RetryPolicy
from flowfabric.core.rules.execution import retry
from flowfabric.core.states import (
    PHASE_DEFAULTS,
    WAITING_CHILDREN_DEFAULTS,
    EligibilityState,
    LifecyclePhase,
    PublicState,
    StateVector,
    TerminalOutcome,
    derive_public_state,
)
from tests.servers import TestServer
from tests.valkey.lua.sources import MODULES

Call = Callable[..., Any]

_EXPOSE = """
redis.register_function('fftest_call', function(_, argv)
  local member = lib[argv[1]][argv[2]]
  if type(member) ~= 'function' then return cjson.encode({member, cjson.null}) end
  local result, second = member(unpack(cjson.decode(argv[3])))
  return cjson.encode({result == nil and cjson.null or result, second == nil and cjson.null or second})
end)
"""


@pytest.fixture(scope="module")
def call(wire_server: TestServer) -> Iterator[Call]:
    """Call `module.function(args...)`; answers its first two results."""
    text = build({f"{name}.lua": source for name, source in MODULES.items()}, {}).text
    text = text.replace("name=flowfabric", "name=fftest") + _EXPOSE
    client = valkey.Valkey(port=wire_server.port)
    client.execute_command("FUNCTION", "LOAD", "REPLACE", text)

    def run(function: str, *args: object) -> Any:
        module, name = function.split(".")
        reply = client.execute_command("FCALL", "fftest_call", 0, module, name, json.dumps(args))
        first, second = json.loads(reply)
        return first if second is None else (first, second)

    yield run
    client.execute_command("FUNCTION", "DELETE", "fftest")
    client.close()


def test_public_state_is_derived_as_in_python(call: Call) -> None:
    for phase, eligibility, outcome in itertools.product(LifecyclePhase, EligibilityState, TerminalOutcome):
        assert call("state.public", phase, eligibility, outcome) == derive_public_state(phase, eligibility, outcome)


def test_the_defaults_of_each_phase_are_the_same_as_in_python(call: Call) -> None:
    names = [name for name in StateVector.__struct_fields__ if name != "lifecycle_phase"]
    usual = [(phase, derive_public_state(phase, vector.eligibility_state, vector.terminal_outcome), vector)
             for phase, vector in PHASE_DEFAULTS.items()]  # fmt: skip
    usual.append((LifecyclePhase.RUNNABLE, PublicState.WAITING_CHILDREN, WAITING_CHILDREN_DEFAULTS))
    for phase, public, vector in usual:
        assert call("state.defaults", phase, public) == {name: getattr(vector, name) for name in names}


_BACKOFFS = st.one_of(
    st.builds(FixedBackoff, delay_ms=st.integers(0, 10**7)),
    st.builds(
        ExponentialBackoff,
        initial_delay_ms=st.integers(0, 10**6),
        max_delay_ms=st.integers(10**6, 10**7),
        multiplier=st.sampled_from([1.0, 1.5, 2.0, 3.25, 10.0]),
        jitter=st.booleans(),
    ),
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    backoff=_BACKOFFS,
    max_retries=st.integers(0, 2000),
    retries=st.integers(0, 2000),
    category=st.sampled_from(["transient", "permanent", "timeout"]),
    categories=st.lists(st.sampled_from(["transient", "timeout"]), unique=True),
    requested=st.one_of(st.none(), st.integers(0, 10**9)),
)
def test_the_retry_delay_is_the_same_as_in_python(
    call: Call, backoff: FixedBackoff | ExponentialBackoff, max_retries: int, retries: int, category: str,
    categories: list[str], requested: int | None,
) -> None:  # fmt: skip
    policy = RetryPolicy(max_retries=max_retries, backoff=backoff, retryable_categories=tuple(categories))
    seed = f"seed:{retries}"
    expected = None
    if retry.should_retry(policy, retries, category):
        expected = retry.retry_delay_ms(policy, retries, requested, retry.jitter_fraction(seed))
    as_json = {
        "max_retries": max_retries,
        "retryable_categories": categories,
        "backoff": {"type": backoff.__struct_config__.tag}
        | {name: getattr(backoff, name) for name in backoff.__struct_fields__},
    }
    # JSON null is not Lua's nil: an absent delay is passed as a hole the module treats as given only when a number.
    args = [as_json, retries, category, requested if requested is not None else False, seed]
    assert call("retry.delay_ms", *args) == expected


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("42", 42), ("-7", -7), ("", None), ("1.5", None), ("1e3", None), (" 1", None), ("0x10", None),
     ("nan", None), ("inf", None), ("99999999999999", None)],
)  # fmt: skip
def test_whole_numbers_are_read_strictly(call: Call, text: str, number: int | None) -> None:
    result = call("args.int", "field", text)
    if number is not None:
        assert result == number
    else:
        assert result[1][:2] == [0, "invalid_input"]
        assert result[1][2].startswith("field: expected a whole number")


def test_nat_and_pos_have_their_bounds(call: Call) -> None:
    assert call("args.nat", "n", "0") == 0
    assert call("args.nat", "n", "-1")[1][1] == "invalid_input"
    assert call("args.pos", "n", "1") == 1
    assert call("args.pos", "n", "0")[1][1] == "invalid_input"


def test_capabilities_match_exactly_and_case_sensitively(call: Call) -> None:
    assert call("capability.check", "", "anything") is None
    assert call("capability.check", "gpu", "cpu,gpu") is None
    assert call("capability.check", "gpu,zone.eu", "GPU") == ("capability_mismatch", "gpu,zone.eu")
    assert call("capability.check", "gpu", "gpu-large") == ("capability_mismatch", "gpu")


def test_capability_lists_are_sorted_and_bounded(call: Call) -> None:
    assert call("capability.from_list", ["b", "a", "a"]) == "a,a,b"
    assert call("capability.from_list", [str(i) for i in range(257)])[1] == "required:too_many_tokens"
    assert call("capability.from_list", ["x" * 4097])[1] == "required:too_many_bytes"
    assert call("capability.from_list", ["a\x7f"])[1] == "required:control_or_whitespace"
    assert call("capability.from_list", ["ünïcode"]) == "ünïcode"


def test_tag_names_are_printable_and_short(call: Call) -> None:
    for good in ("a", "A.b", "team_1.some-thing", "a b", "ü", "x" * 128):
        assert call("tags.is_key", good) is True
    for bad in ("", "a\nb", "\x7f", "\x85", "x" * 4096):
        assert call("tags.is_key", bad) is False
