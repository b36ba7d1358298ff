"""No two names make one key: of all the kinds of keys that a store with something of everything shows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowfabric.backends.valkey.library import keys
from tests.valkey.driver import Driver
from tests.valkey.invariants import key_names
from tests.valkey.keys.whole_store import Names, whole_store
from tests.valkey.lua.key_builders import lua_builders, python_builders

ODD = Names(
    lane="L:eligible", namespace="a:b%3Ac", capability="blocked:quota", concurrency_key="k:=%", tag_value="x=y:z",
    idempotency_key="ff:noop:{x}", signal_key="s:%", usage_key="settled:u", instance="i:leases=1",
)  # fmt: skip
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_LEASE = re.compile(r"(ff:claim:\{[^}]*\}:).*")
# Messages, names inside keys, and keys that are named but never written. Those of one call's own are gone when it ends.
NOT_KEYS = (
    "ff:dag:completions", "ff:handover", "ff:budget", "ff:due", "ff:wake:*", "ff:hand:*", "ff:noop:*", "ff:output:*",
    "ff:pass",
)  # fmt: skip
# Calls that leave keys which others take away again before the next look.
PASSING = ("claim_batch", "complete_execution", "create_pending_waitpoint", "due_admissions", "issue_claim_grant")


def kind_of(key: str) -> str:
    """A key without what differs from one store to the next: ids, tickets, and the partitions of executions."""
    key = re.sub(r"#\d+$", "#<ticket>", key)
    return _LEASE.sub(r"\1<lease>", _UUID.sub("<uuid>", re.sub(r"\{(fp|b|q):\d+\}", r"{\1:N}", key)))


def rendered(kind: str, names: Names) -> str:
    """The kind of key that the usual names made, with other names: written as parts, but for the last one."""
    for usual, name in zip(Names(), names, strict=True):
        if kind.endswith(usual):
            kind = kind.removesuffix(usual) + "\1"  # behind all others
            last = name
            break
    else:
        last = ""
    for usual, name in zip(Names(), names, strict=True):
        kind = kind.replace(usual, keys.part(name))
    return kind.replace("\1", last)


async def kinds(driver: Driver, names: Names, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The kinds of all keys that any call left behind."""
    library, seen = driver.backend._library, set[str]()
    invoke = type(library).invoke

    async def invoke_and_look(self: Any, *args: Any) -> Any:
        reply = await invoke(self, *args)
        if args[0].operation in PASSING:
            seen.update(await key_names(driver.backend.client))
        return reply

    with monkeypatch.context() as patched:
        patched.setattr(type(library), "invoke", invoke_and_look)
        seen |= (await whole_store(driver, names)).seen
    for node in await driver.backend.client.primaries():
        await node.execute("FLUSHALL")
    return {kind_of(key) for key in seen}


_PIECES = st.sampled_from(
    [
        ":",
        "%",
        "=",
        "3A",
        "25",
        "{",
        "}",
        ",",
        "eligible",
        "lane",
        "leases",
        "caps",
        "config",
        "blocked",
        "quota",
        "key_active",
        "team.color",
        "default",
        "a",
        "b",
    ]
)
_TEXTS = st.lists(_PIECES, min_size=1, max_size=4).map("".join)
_NAMES = st.builds(Names, *[_TEXTS] * len(Names._fields))


def used(kind: str, names: Names) -> tuple[tuple[str, str], ...]:
    """Which names a key of this kind is made of."""
    return tuple((usual, name) for usual, name in zip(Names(), names, strict=True) if usual in kind)


def check_apart(found: Iterable[str]) -> None:
    listed = st.sampled_from(sorted(found))

    @settings(deadline=None, max_examples=1_500, suppress_health_check=list(HealthCheck))
    @given(listed, _NAMES, listed, _NAMES)
    def check(one: str, names: Names, other: str, others: Names) -> None:
        same = (one, used(one, names)) == (other, used(other, others))
        assert (rendered(one, names) == rendered(other, others)) == same

    check()


async def test_no_two_names_make_one_key(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = await kinds(driver, Names(), monkeypatch)
    odd = await kinds(driver, ODD, monkeypatch)
    assert odd == {rendered(kind, ODD) for kind in usual}
    check_apart(usual)
    builders = {each.fixed for each in (*lua_builders(), *python_builders())}
    unseen = {
        fixed for fixed in builders - set(NOT_KEYS) if not any(fnmatchcase(key, f"{fixed}*") for key in usual)
    }  # fmt: skip
    assert unseen == set(), "have tests/conformance/whole_store.py make such a key"
