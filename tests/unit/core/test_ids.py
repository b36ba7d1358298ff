from __future__ import annotations

import copy
import pickle
import shlex
import urllib.parse
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core import ids, limits
from flowfabric.core.ids import ExecutionId, FlowId, LaneId, LeaseId, WaitpointKey, WaitpointToken, WorkerId
from flowfabric.core.partition import PartitionConfig, lane_partitions
from flowfabric.errors import FlowFabricError, InvalidInput

CONFIG = PartitionConfig()
UUID = "550e8400-e29b-41d4-a716-446655440000"
UUID_IDS = [
    ids.FlowId, ids.BudgetId, ids.QuotaPolicyId, ids.LeaseId, ids.AttemptId, ids.SignalId, ids.WaitpointId,
    ids.SuspensionId, ids.EdgeId,
]  # fmt: skip
NAMES = [ids.Namespace, ids.WorkerId, ids.WorkerInstanceId, ids.WaitpointKey]


@given(st.integers(0, 65535), st.uuids())
def test_an_execution_id_says_its_partition_and_its_uuid(index: int, value: uuid.UUID) -> None:
    text = f"{{fp:{index}}}:{value}"
    parsed = ExecutionId(text)
    assert parsed == text
    assert (parsed.partition_index, parsed.uuid, parsed.tag) == (index, str(value), f"{{fp:{index}}}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        UUID,
        f"{{fp:}}:{UUID}",
        f"{{fp:65536}}:{UUID}",
        f"{{fp:007}}:{UUID}",
        f"{{fp:-1}}:{UUID}",
        f"{{fp:+1}}:{UUID}",
        f"{{fp:\u0661}}:{UUID}",
        f"{{b:1}}:{UUID}",
        f"{{fp:1}}{UUID}",
        f"{{fp:1}}:{UUID.upper()}",
        f"{{fp:1}}:{UUID.replace('-', '')}",
        f"{{fp:1}}:{UUID}\n",
        f" {{fp:1}}:{UUID}",
        "{fp:1}:not-a-uuid",
        None,
        7,
    ],
)
def test_malformed_execution_ids_are_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ExecutionId(text)
    assert caught.value.field == "execution_id"
    assert "{fp:N}:<lower-case uuid>" in str(caught.value)


def test_a_flow_member_lives_on_its_flows_partition() -> None:
    flow = FlowId("11111111-1111-1111-1111-111111111111")
    assert ExecutionId.for_flow(flow, CONFIG).partition_index == 6
    assert ExecutionId.for_flow(flow, CONFIG) != ExecutionId.for_flow(flow, CONFIG)


@pytest.mark.parametrize(("lane", "index"), [("default", 86), ("workers-a", 193)])
def test_a_stand_alone_execution_lives_on_its_lanes_partition(lane: str, index: int) -> None:
    assert ExecutionId.for_lane(LaneId(lane), CONFIG).partition_index == index


def test_executions_with_one_idempotency_key_share_a_shard_of_their_lane() -> None:
    lane, sharded = LaneId("default"), PartitionConfig(lane_shards=8)
    ids = [ExecutionId.for_lane(lane, sharded, idempotency_key="order-1") for _ in range(20)]
    assert len(set(ids)) == 20
    assert {each.tag for each in ids} == {
        ExecutionId.deterministic_for_lane(lane, sharded, UUID, idempotency_key="order-1").tag
    }


def test_executions_with_one_concurrency_key_share_a_shard_of_their_lane() -> None:
    lane, sharded = LaneId("default"), PartitionConfig(lane_shards=8)
    ids = [ExecutionId.for_lane(lane, sharded, concurrency_key="c", idempotency_key=str(n)) for n in range(20)]
    assert len({each.tag for each in ids}) == 1


def test_executions_without_a_key_spread_over_the_shards_of_their_lane() -> None:
    lane, sharded = LaneId("default"), PartitionConfig(lane_shards=8)
    found = {ExecutionId.deterministic_for_lane(lane, sharded, uuid.UUID(int=number)).tag for number in range(100)}
    assert found == {shard.tag for shard in lane_partitions(lane, sharded)}


def test_deterministic_minting_gives_the_same_id_for_the_same_uuid() -> None:
    flow, lane = FlowId(UUID), LaneId("default")
    assert ExecutionId.deterministic_for_flow(flow, CONFIG, UUID) == f"{{fp:24}}:{UUID}"
    assert ExecutionId.deterministic_for_lane(lane, CONFIG, uuid.UUID(UUID)) == f"{{fp:86}}:{UUID}"


def test_deterministic_minting_refuses_what_is_no_uuid() -> None:
    with pytest.raises(InvalidInput, match="execution_id"):
        ExecutionId.deterministic_for_lane(LaneId("default"), CONFIG, "job-1")


@pytest.mark.parametrize("kind", UUID_IDS)
def test_uuid_ids_mint_v4_and_refuse_everything_else(kind: type[ids.UuidId]) -> None:
    fresh = kind.new()
    assert uuid.UUID(fresh).version == 4
    assert kind(str(fresh)) == fresh
    for bad in ("", UUID.upper(), UUID[:-1], f"{{{UUID}}}", f"{UUID}\n", None):
        with pytest.raises(InvalidInput) as caught:
            kind(bad)  # type: ignore[arg-type]
        assert caught.value.field == kind.field


def test_every_kind_of_id_has_a_field_name_of_its_own() -> None:
    kinds = [*UUID_IDS, *NAMES, ExecutionId, LaneId, WaitpointToken]
    assert len({kind.field for kind in kinds}) == len(kinds)


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=64))
def test_lanes_are_printable_ascii_of_up_to_64_bytes(text: str) -> None:
    assert LaneId(text) == text


@pytest.mark.parametrize("text", ["", "x" * 65, "tab\t", "é", "\x7f", "line\n"])
def test_other_lane_names_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="lane_id"):
        LaneId(text)


@pytest.mark.parametrize("kind", NAMES)
def test_free_text_names_are_bounded_and_fit_one_line(kind: type[ids.TextId]) -> None:
    assert kind("größe/1 a:b") == "größe/1 a:b"
    assert kind("ä" * 128) == "ä" * 128
    for bad in ("", "ä" * 129, "a\nb", "nul\0", "\ud800", 5):
        with pytest.raises(InvalidInput) as caught:
            kind(bad)  # type: ignore[arg-type]
        assert caught.value.field == kind.field


def test_a_token_never_shows_itself() -> None:
    token = WaitpointToken("k1:0123456789abcdef")
    shown = f"{token} {token!r} {token!s} {token:>12} %s" % token + str({"token": token})
    assert "0123" not in shown
    assert token.reveal() == "k1:0123456789abcdef" == token


def test_a_token_is_not_judged_before_the_store_has_seen_it() -> None:
    assert WaitpointToken("") == ""
    assert WaitpointToken("garbage") == "garbage"


def test_an_unusable_token_is_refused_without_being_quoted() -> None:
    with pytest.raises(InvalidInput) as caught:
        WaitpointToken("k1:" + "f" * 600)
    assert "fff" not in str(caught.value)
    assert caught.value.field == "waitpoint_token"


@pytest.mark.parametrize("value", [ExecutionId(f"{{fp:3}}:{UUID}"), LeaseId(UUID), WaitpointToken("k1:ab")])
def test_ids_survive_copying_and_pickling(value: ids.TextId) -> None:
    for twin in (copy.deepcopy(value), pickle.loads(pickle.dumps(value)), type(value)(value)):
        assert twin == value
        assert type(twin) is type(value)


def test_an_id_in_a_message_names_its_kind() -> None:
    assert repr(WorkerId("w1")) == "WorkerId('w1')"
    assert str(WaitpointKey("wpk:1")) == "wpk:1"


_IDS = st.builds(lambda index, uuid: f"{{fp:{index}}}:{uuid}", st.integers(0, limits.MAX_U16), st.uuids().map(str))


@given(_IDS)
def test_the_short_form_is_the_same_id(text: str) -> None:
    stored = ExecutionId(text)
    assert ExecutionId(stored.short) == stored == text
    assert hash(ExecutionId(stored.short)) == hash(stored)
    assert type(ExecutionId(stored.short)) is ExecutionId
    assert ExecutionId(stored.short).short == stored.short


@given(_IDS)
def test_the_short_form_needs_no_quotes_in_a_shell_or_a_url(text: str) -> None:
    short = ExecutionId(text).short
    assert shlex.quote(short) == short
    assert urllib.parse.quote(short, safe="") == short


_UUID_TEXT = "01a1ec80-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    "text",
    [
        f"65536-{_UUID_TEXT}",
        f"086-{_UUID_TEXT}",
        f"-1-{_UUID_TEXT}",
        f"86:{_UUID_TEXT}",
        f"{{86}}-{_UUID_TEXT}",
        f"86-{_UUID_TEXT.upper()}",
        f"86-{_UUID_TEXT}\n",
        f"٣-{_UUID_TEXT}",
        _UUID_TEXT,
        "86-",
    ],
)
def test_what_only_resembles_the_short_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="must look like N-<lower-case uuid>"):
        ExecutionId(text)


def test_errors_name_executions_by_their_short_form() -> None:
    stored = f"{{fp:86}}:{_UUID_TEXT}"
    error = FlowFabricError(f"cancel {stored}: it has ended", code="execution_not_active", execution_id=stored)
    assert error.message == f"cancel 86-{_UUID_TEXT}: it has ended"
    assert error.details == {"execution_id": f"86-{_UUID_TEXT}"}
