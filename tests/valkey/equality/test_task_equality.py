"""Which worker may take which task: Lua and `flowfabric.core.rules.tasks` agree, on the real VM."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowfabric.core.rules import tasks
from tests.valkey.equality.conftest import Call

fast = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

names = st.one_of(
    st.sampled_from(["a", "b", "a,b", "a b", "100%", "a%2Cb", "naïve", "ff.task:a", "x/y:z-1.0"]),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20),
)
capabilities = st.sets(st.sampled_from(["gpu", "big", "eu"]), max_size=3)


@fast
@given(names)
def test_a_name_becomes_the_same_token(call: Call, name: str) -> None:
    assert call("capability.of_task", name) == tasks.token_of(name)
    assert tasks.unescaped(tasks.escaped(name)) == name


@fast
@given(names, st.lists(names, max_size=4), capabilities, capabilities)
def test_the_same_workers_may_take_the_same_work(
    call: Call, kind: str, kinds: list[str], needed: set[str], offered: set[str]
) -> None:
    required = sorted([*needed, tasks.token_of(kind)], key=str.encode)
    text = tasks.kinds_text(tuple(kinds))
    given_kinds = [text] if text else []
    found = call("capability.check", ",".join(required), ",".join(sorted(offered)), *given_kinds)
    lacked = tasks.lacks(required, offered, kinds)
    assert found == (("capability_mismatch", ",".join(lacked)) if lacked else None)
