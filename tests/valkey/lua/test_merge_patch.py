"""lib/base/merge_patch.lua patches as `core/rules/merge_patch.py` does, and keeps every value as it was written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import valkey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowfabric.backends.valkey.library.bundle import build
from flowfabric.core.rules import merge_patch
from flowfabric.core.rules.outcome import Refusal
from tests.servers import TestServer
from tests.valkey.lua.sources import MODULES

_EXPOSE = """
redis.register_function('ffmerge', function(_, argv)
  local object = lib.merge_patch.read(argv[1])
  for i = 2, #argv do
    local wrong = lib.merge_patch.apply(object, argv[i])
    if wrong then return {0, wrong} end
  end
  return {1, lib.merge_patch.text(object)}
end)
"""


@pytest.fixture(scope="module")
def client(wire_server: TestServer) -> Iterator[valkey.Valkey]:
    text = build({f"{name}.lua": source for name, source in MODULES.items()}, {}).text
    opened = valkey.Valkey(port=wire_server.port)
    opened.execute_command("FUNCTION", "LOAD", "REPLACE", text.replace("name=flowfabric", "name=ffmerge") + _EXPOSE)
    yield opened
    opened.execute_command("FUNCTION", "DELETE", "ffmerge")
    opened.close()


def merge(client: valkey.Valkey, document: str, *patches: str) -> str:
    applied, text = client.execute_command("FCALL", "ffmerge", 0, document, *patches)
    assert applied == 1, text
    return bytes(text).decode()


_KEYS = st.sampled_from(["a", "b", "", "ä", 'q"uote', "back\\slash", "sl/ash", "{}", "\n"])
_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8),
    st.just(merge_patch.NULL), st.just([]), st.just({}),
    st.lists(st.one_of(st.none(), st.just(merge_patch.NULL), st.text(max_size=3)), max_size=3),
)  # fmt: skip
_OBJECTS = st.recursive(
    st.dictionaries(_KEYS, _LEAVES, max_size=4), lambda inner: st.dictionaries(_KEYS, inner | _LEAVES, max_size=4)
)
_SPACING = st.sampled_from([None, 1])


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(patches=st.lists(_OBJECTS, min_size=1, max_size=4), indent=_SPACING, ascii_only=st.booleans())
def test_patches_make_the_same_document(
    client: valkey.Valkey, patches: list[dict[str, Any]], indent: int | None, ascii_only: bool
) -> None:
    texts = [json.dumps(patch, indent=indent, ensure_ascii=ascii_only) for patch in patches]
    together: dict[str, Any] = {}
    document = ""
    for patch, text in zip(patches, texts, strict=True):
        patched = merge_patch.apply(together, patch)
        assert not isinstance(patched, Refusal)
        together = patched
        document = merge(client, document, text)
        assert json.loads(document) == together
    assert json.loads(merge(client, "", *texts)) == together


@settings(max_examples=300, deadline=None)
@given(document=_OBJECTS, first=_OBJECTS, second=_OBJECTS)
def test_a_joined_patch_has_the_effect_of_both(
    document: dict[str, Any], first: dict[str, Any], second: dict[str, Any]
) -> None:
    joined = merge_patch.joined(first, second)
    before, once = merge_patch.apply({}, document), merge_patch.apply(document, first)
    assert isinstance(before, dict)
    assert isinstance(once, dict)
    if joined is not None:
        assert merge_patch.apply(document, joined) == merge_patch.apply(once, second)


def test_patches_are_joined_unless_a_patch_must_replace_a_member_by_an_object() -> None:
    assert merge_patch.joined({"a": {"b": 1}, "c": 1}, {"a": {"d": 2}, "c": None}) == {"a": {"b": 1, "d": 2}, "c": None}
    assert merge_patch.joined({"a": None}, {"a": {"b": 1}}) is None
    assert merge_patch.joined({"a": {"b": 1}}, {"a": {"b": {"c": 2}}}) is None


@pytest.mark.parametrize("text", ["[]", "{}", "1.0", "12345678901234567890", "1e400", '"\\u00e4\\/"', "[1, {}]"])
def test_values_stay_as_they_were_written(client: valkey.Valkey, text: str) -> None:
    assert merge(client, "", f'{{"a" : {text} , "b":1}}', '{"b":2}') == f'{{"a":{text},"b":2}}'


def test_members_keep_their_order_and_a_key_is_one_however_it_is_spelled(client: valkey.Valkey) -> None:
    assert merge(client, '{"z":1,"a":2}', '{"\\u0061":3,"m":4}') == '{"z":1,"a":3,"m":4}'


@pytest.mark.parametrize("text", ["", "[]", "7", "{", '{"a":NaN}', '{"a":0x10}', '{"a":1}}', "null", '{"a":Infinity}'])
def test_what_is_no_json_object_is_refused(client: valkey.Valkey, text: str) -> None:
    assert client.execute_command("FCALL", "ffmerge", 0, "", text) == [0, b"a JSON object"]


def _nested(levels: int) -> Any:
    return {"a": _nested(levels - 1)} if levels else 1


@pytest.mark.parametrize(
    "patch", [[], 7, "text", None, _nested(merge_patch.MAX_DEPTH), _nested(merge_patch.MAX_DEPTH + 1)]
)
def test_the_same_patches_are_refused(client: valkey.Valkey, patch: object) -> None:
    applied, _ = client.execute_command("FCALL", "ffmerge", 0, "", json.dumps(patch))
    assert (applied == 0) == isinstance(merge_patch.apply({}, patch), Refusal)
