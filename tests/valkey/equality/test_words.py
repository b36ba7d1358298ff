"""Codes, events and state words that Lua writes are those that `flowfabric.core` knows."""

from __future__ import annotations

import re

from flowfabric.backends.valkey.library.contract import parse_contract
from flowfabric.core import forms, limits
from flowfabric.core.contracts.events import EventKind
from flowfabric.core.contracts.forking import FORKED_FROM_TAG
from flowfabric.core.rules.execution import retrying
from flowfabric.errors import CODES
from flowfabric.worker.context import spent_before
from flowfabric.worker.durable import changed_steps
from flowfabric.worker.durable.failed_steps import FAILED_STEPS
from flowfabric.worker.durable.journal import RESERVED
from flowfabric.worker.durable.step_output import OUTPUT_STEPS
from tests.valkey.lua.sources import FUNCTIONS, MODULES, code_of

CODE = {name: code_of(source) for name, source in {**FUNCTIONS, **MODULES}.items()}
_EVENT = re.compile(r'(?:\bevent = |event\.(?:append\w*|line)\(\w+, (?:now, )?)"(\w+)"')
# Vectors that depend on what else is known: where a replayed member waits, and the indexes of a concurrency key.
_COMPOSED = {"replay_execution", "retry_execution", "replay_members", "implied"}


def _is_known(event: str) -> bool:
    """An event, or the beginning of some that Lua completes: `flow_`."""
    return event in set(EventKind) or (event.endswith("_") and any(each.startswith(event) for each in EventKind))


def test_every_code_that_lua_refuses_with_is_known() -> None:
    written = {(name, code) for name, text in CODE.items() for code in re.findall(r'refuse\("(\w+)"', text)}
    assert {(name, code) for name, code in written if code not in CODES} == set()
    assert len(written) > 100


def test_every_event_that_lua_writes_is_known() -> None:
    written = {(name, event) for name, text in CODE.items() for event in _EVENT.findall(text)}
    assert {(name, event) for name, event in written if not _is_known(event)} == set()
    assert {event for _, event in written} >= {"claimed", "suspended", "progress", "blocked"}


def test_state_vectors_are_taken_from_the_generated_module() -> None:
    literal = re.compile(r'lifecycle_phase = "')
    assert {name for name, text in CODE.items() if literal.search(text)} - {"vectors"} == _COMPOSED


def test_retry_and_fork_know_the_same_records_and_ends_as_python() -> None:
    forking, continuing = MODULES["forking"], MODULES["continuing"]
    own = re.search(r"local OWN = \{(.*)\}", forking)
    assert own is not None
    assert [text.removeprefix("^%d+:").removesuffix("$") for text in re.findall(r'"(.*?)"', own[1])] == [
        forms.WAITPOINT_STEPS, spent_before._NAME,
    ]  # fmt: skip
    of_steps = {*re.findall(r'\["(\w+:)"\] = true', forking)}
    assert of_steps == {name.removeprefix(RESERVED) for name in (FAILED_STEPS, OUTPUT_STEPS)}
    assert f'M.TAG = "{FORKED_FROM_TAG}"' in forking
    assert f"sub(1, {changed_steps._WAIT_LENGTH})" in forking
    went_on = re.search(r"local WENT_ON = \{(.*)\}", continuing)
    assert went_on is not None
    # What an operator resumed has the reason `resumed` in the record.
    assert {*re.findall(r"(\w+) = true", went_on[1])} == retrying._WENT_ON - {"resumed_by_operator"}


# Pages of another length than a caller may ask for. Lists over several partitions ask each for one entry more, to see
# whether there is a next page; lists of holders are read by upkeep alone.
_OTHER_PAGES = {
    "list_lanes": limits.SCAN_LIMIT_MAX + 1, "list_limits": limits.SCAN_LIMIT_MAX + 1, "list_holders": 100,
    "list_admitted": 100,
}  # fmt: skip
# Defaults of the wire that are bounds of `core/limits.py`.
_DEFAULTS = {
    ("reclaim_execution", "default_max_reclaim_count"): limits.DEFAULT_MAX_RECLAIM_COUNT,
    ("append_frame", "max_payload_bytes"): limits.FRAME_PAYLOAD_MAX_BYTES,
    ("append_frame", "maxlen_ceiling"): limits.DEFAULT_MAX_LIVE_FRAMES,
}


def test_a_page_of_every_list_is_as_long_as_callers_may_ask_for() -> None:
    literal = re.compile(r"\bMAX_(?:LIMIT|PAGE)\b[\w, ]* = (\d+)")
    found = {name: int(match[1]) for name, text in CODE.items() if (match := literal.search(text))}
    assert {name: most for name, most in found.items() if most != limits.SCAN_LIMIT_MAX} == _OTHER_PAGES
    assert len(found) > 15


def test_defaults_of_the_wire_are_those_of_core() -> None:
    for (function, name), expected in _DEFAULTS.items():
        args = {arg.name: arg.default for arg in parse_contract(function, FUNCTIONS[function]).args}
        assert int(args[name] or 0) == expected, (function, name)
