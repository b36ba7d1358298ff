"""Codes, events and state words that Lua writes are those that `flowfabric.core` knows."""

from __future__ import annotations

import re

from flowfabric.core.contracts.events import EventKind
from flowfabric.errors import CODES
from tests.valkey.lua.sources import FUNCTIONS, MODULES, code_of

CODE = {name: code_of(source) for name, source in {**FUNCTIONS, **MODULES}.items()}
_EVENT = re.compile(r'(?:\bevent = |event\.(?:append\w*|line)\(\w+, (?:now, )?)"(\w+)"')
# Vectors that depend on what else is known: where a replayed member waits, and the indexes of a concurrency key.
_COMPOSED = {"replay_execution", "replay_members", "implied"}


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
