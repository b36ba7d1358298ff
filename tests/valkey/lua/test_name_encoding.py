"""Names in keys: both languages write them alike, ordinary ones as they are, and no builder forgets to."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

import pytest
import valkey
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.bundle import build
from tests.servers import TestServer
from tests.valkey.lua.key_builders import Builder, lua_builders, python_builders
from tests.valkey.lua.sources import MODULES
from tests.valkey.wire.wire import Execution

_EXPOSE = """
redis.register_function('ffnames_part', function(_, argv) return lib.names.part(argv[1]) end)
redis.register_function('ffnames_read', function(_, argv) return lib.names.read(argv[1]) end)
"""
ORDINARY = string.ascii_letters + string.digits + "-_./"


@pytest.fixture(scope="module")
def client(wire_server: TestServer) -> Iterator[valkey.Valkey]:
    text = build({f"{name}.lua": source for name, source in MODULES.items()}, {}).text
    opened = valkey.Valkey(port=wire_server.port)
    opened.execute_command("FUNCTION", "LOAD", "REPLACE", text.replace("name=flowfabric", "name=ffnames") + _EXPOSE)
    yield opened
    opened.execute_command("FUNCTION", "DELETE", "ffnames")
    opened.close()


_NAMES = st.text(st.one_of(st.sampled_from(":%=3A25D{},"), st.characters(codec="utf-8")), max_size=40)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(name=_NAMES)
@example(name="%3A")
@example(name="%253A:")
def test_lua_and_python_write_a_name_alike_and_read_it_back(client: valkey.Valkey, name: str) -> None:
    written = keys.part(name)
    assert client.execute_command("FCALL", "ffnames_part", 0, name) == written.encode()
    assert not {":", "="} & set(written)
    assert keys.name_of(written) == name
    assert client.execute_command("FCALL", "ffnames_read", 0, written) == name.encode()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(part=_NAMES)
def test_what_no_name_is_written_as_is_no_name(client: valkey.Valkey, part: str) -> None:
    read = client.execute_command("FCALL", "ffnames_read", 0, part)
    assert read is None or keys.part(read.decode()) == part


@given(st.text(ORDINARY, max_size=64))
def test_an_ordinary_name_is_not_changed(name: str) -> None:
    assert keys.part(name) == name


@given(_NAMES, _NAMES)
def test_no_two_names_are_written_alike(one: str, other: str) -> None:
    assert (keys.part(one) == keys.part(other)) == (one == other)


# Ids, tags, numbers and words of ours have no colon but their own, which are always the same. Anything else that stands
# before the end of a key is a name, and goes through names.part or keys.part.
_OURS_LUA = re.compile(
    r"(\w+\.)?(tag|id)|tag|flow_id|parent|existing|uuid|e\.up|up|index|kind|name|place|group|ids\[i\]|found\[1\]"
    r"|page\[2\]\[i\]|A\.lease_epoch|names\.part\(.*\)"
)
_OURS_PYTHON = re.compile(
    r"tag|(execution_id|self\._budget_tag\(partition\))(\.tag)?|execution_id|flow_id|attempt_index|index|budget_id"
    r"|(budget|quota)_partition\(.*\)\.tag|part\(.*\)|owned\(.*\)"
)


def _names_before_the_end(each: Builder, ours: re.Pattern[str]) -> list[str]:
    inner = each.operands if each.ends_fixed else each.operands[:-1]
    return [operand for operand in inner if not ours.fullmatch(operand)]


@pytest.mark.parametrize(
    ("builders", "ours"), [(lua_builders(), _OURS_LUA), (python_builders(), _OURS_PYTHON)], ids=["lua", "python"]
)
def test_only_the_last_part_of_a_key_holds_a_name_as_it_is(builders: list[Builder], ours: re.Pattern[str]) -> None:
    assert len(builders) > 10
    wrong = {f"{each.place}: {each.fixed}": found for each in builders if (found := _names_before_the_end(each, ours))}
    assert wrong == {}, "write them with names.part or keys.part"


def test_index_names_are_joined_in_one_module_alone() -> None:
    """Keys of lanes, labels and workers come from lib/base/index_key.lua; other modules give it words of ours."""
    joined = {
        name for name, source in MODULES.items() for _ in re.finditer(r'index_key\.\w+\([^()]*"tag:"', source)
    }  # fmt: skip
    assert joined == set()
    prefixed = {each.place for each in lua_builders() if re.match(r"ff:idx:\*:(lane|worker|tag):", each.fixed)}
    assert prefixed == {"lib/base/index_key.lua"}


def _listed(x: Execution, label: str) -> list[str]:
    reply = x.fcall(
        "ff_list_executions", [f"ff:part:{x.tag}:events"], "", "", "", "", "newest", "", "", "", "", 10, label
    )
    return [row[0] for row in reply[5]]


def test_labels_of_direct_callers_that_look_alike_are_listed_apart(wire: valkey.Valkey) -> None:
    one, other = Execution(wire), Execution(wire)
    one.create(tags='{"a=b":"c"}')
    other.create(tags='{"a":"b=c"}')
    assert _listed(one, "a%3Db=c") == [one.id]
    assert _listed(one, "a=b=c") == [other.id]


def test_an_idempotency_key_may_hold_any_text(wire: valkey.Valkey) -> None:
    x, again = Execution(wire), Execution(wire)
    x.create(idem="ff:noop:{fp:7}", ttl=60_000)
    assert again.create(idem="ff:noop:{fp:7}", ttl=60_000)[1:] == ["DUPLICATE", x.id]


def test_no_other_key_passes_for_an_idempotency_key(wire: valkey.Valkey) -> None:
    x, other = Execution(wire), Execution(wire)
    other.create()
    filler = [f"ff:noop:{x.tag}"] * 4
    keys_of_call = [x.core, *filler, other.core, *filler[:2]]
    reply = x.fcall(
        "ff_create_execution", keys_of_call, x.id, "ns", "default", "kind", 0, "", "", b"", "", 60_000, "", "", 7
    )
    assert reply[:2] == [0, "invalid_input"]
    assert other.field("lane_id") == "default"
