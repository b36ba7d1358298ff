from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowfabric.core.ids import BudgetId, FlowId, LaneId, QuotaPolicyId
from flowfabric.core.partition import (
    Partition,
    PartitionConfig,
    PartitionFamily,
    PartitionKey,
    budget_partition,
    crc16,
    execution_partition,
    flow_partition,
    lane_partitions,
    quota_partition,
)
from flowfabric.errors import InvalidInput

CONFIG = PartitionConfig()
UUID = "550e8400-e29b-41d4-a716-446655440000"


def test_the_checksum_is_the_one_of_cluster_slots() -> None:
    assert crc16(b"123456789") == 0x31C3
    assert crc16(bytes.fromhex(UUID.replace("-", ""))) == 36888
    assert crc16(b"default") == 54870
    assert crc16(b"workers-a") == 11969


def test_ids_and_lanes_hash_to_known_partitions() -> None:
    assert flow_partition(FlowId(UUID), CONFIG).tag == "{fp:24}"
    assert flow_partition(FlowId("11111111-1111-1111-1111-111111111111"), CONFIG).tag == "{fp:6}"
    assert budget_partition(BudgetId(UUID), CONFIG).tag == "{b:24}"
    assert quota_partition(QuotaPolicyId(UUID), CONFIG).tag == "{q:24}"
    assert [shard.tag for shard in lane_partitions(LaneId("default"), CONFIG)] == ["{fp:86}"]


def test_the_shards_of_a_lane_are_spread_over_the_partitions() -> None:
    config = PartitionConfig(lane_shards=4)
    assert [shard.index for shard in lane_partitions(LaneId("default"), config)] == [86, 150, 214, 22]


@st.composite
def configs(draw: st.DrawFn) -> PartitionConfig:
    count = draw(st.integers(1, 65535))
    return PartitionConfig(num_flow_partitions=count, lane_shards=draw(st.integers(1, min(count, 1024))))


LANES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=64).map(LaneId)


@settings(deadline=None)
@given(LANES, configs())
def test_shards_are_distinct_and_the_first_is_that_of_an_unsharded_lane(lane: LaneId, config: PartitionConfig) -> None:
    shards = lane_partitions(lane, config)
    assert len(set(shards)) == len(shards) == config.lane_shards
    assert all(shard.index < config.num_flow_partitions for shard in shards)
    unsharded = PartitionConfig(num_flow_partitions=config.num_flow_partitions)
    assert shards[:1] == lane_partitions(lane, unsharded)
    assert shards[0].index == crc16(lane.encode()) % config.num_flow_partitions


@settings(deadline=None)
@given(LANES, configs(), st.uuids(), st.uuids())
def test_an_execution_has_the_shard_of_its_key_or_else_of_its_uuid(
    lane: LaneId, config: PartitionConfig, one: object, other: object
) -> None:
    by_key = {execution_partition(lane, config, str(each), "order-1") for each in (one, other)}
    assert len(by_key) == 1
    by_uuid = execution_partition(lane, config, str(one))
    assert by_uuid == execution_partition(lane, config, str(one))
    assert by_key | {by_uuid} <= set(lane_partitions(lane, config))


def test_keys_and_uuids_hash_to_known_shards() -> None:
    lane, config = LaneId("default"), PartitionConfig(lane_shards=4)
    assert execution_partition(lane, config, UUID).index == lane_partitions(lane, config)[36888 % 4].index
    assert execution_partition(lane, config, UUID, "123456789") == lane_partitions(lane, config)[0x31C3 % 4]


def test_a_concurrency_key_chooses_the_shard_before_an_idempotency_key() -> None:
    lane, config = LaneId("default"), PartitionConfig(lane_shards=4)
    wanted = lane_partitions(lane, config)[0x31C3 % 4]
    for idempotency_key in (None, "a", "b", "c", "d"):
        assert execution_partition(lane, config, UUID, idempotency_key, "123456789") == wanted
    with pytest.raises(InvalidInput, match="concurrency_key"):
        execution_partition(lane, config, UUID, "fine", "")


@pytest.mark.parametrize("key", ["", "x" * 257, "line\n", "\ud800", 7])
def test_a_shard_is_not_chosen_by_a_key_that_no_execution_can_have(key: str) -> None:
    with pytest.raises(InvalidInput, match="idempotency_key"):
        execution_partition(LaneId("default"), CONFIG, UUID, key)


def test_a_lane_cannot_have_more_shards_than_there_are_partitions() -> None:
    assert len(lane_partitions(LaneId("default"), PartitionConfig(num_flow_partitions=3, lane_shards=3))) == 3
    with pytest.raises(InvalidInput, match="at most num_flow_partitions, which is 3") as caught:
        PartitionConfig(num_flow_partitions=3, lane_shards=4)
    assert caught.value.field == "lane_shards"


@given(st.uuids(), st.integers(1, 65535))
def test_every_index_lies_within_the_configured_count(value: object, count: int) -> None:
    config = PartitionConfig(num_flow_partitions=count, num_budget_partitions=count, num_quota_partitions=count)
    assert flow_partition(FlowId(str(value)), config).index < count
    assert budget_partition(BudgetId(str(value)), config).index < count
    assert quota_partition(QuotaPolicyId(str(value)), config).index < count


def test_text_that_is_no_uuid_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="flow_id"):
        flow_partition("nope", CONFIG)  # type: ignore[arg-type]


def test_the_default_counts_are_those_other_clients_assume() -> None:
    assert (CONFIG.num_flow_partitions, CONFIG.num_budget_partitions, CONFIG.num_quota_partitions) == (
        256,
        32,
        32,
    )
    assert CONFIG.lane_shards == 1


@pytest.mark.parametrize("name", PartitionConfig.__struct_fields__)
@pytest.mark.parametrize("count", [0, -1, 65536, 1.5, True, "8"])
def test_a_config_refuses_unusable_counts(name: str, count: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        PartitionConfig(**{name: count})  # type: ignore[arg-type]
    assert caught.value.field == name


@pytest.mark.parametrize(
    ("family", "tag"),
    [
        (PartitionFamily.FLOW, "{fp:7}"),
        (PartitionFamily.EXECUTION, "{fp:7}"),
        (PartitionFamily.BUDGET, "{b:7}"),
        (PartitionFamily.QUOTA, "{q:7}"),
    ],
)
def test_families_have_their_tags(family: PartitionFamily, tag: str) -> None:
    assert Partition(family, 7).tag == tag
    assert Partition(family, 7).key == PartitionKey(tag)


@given(st.sampled_from(list(PartitionFamily)), st.integers(0, 65535))
def test_a_key_names_its_partition_and_the_alias_collapses_into_flow(family: PartitionFamily, index: int) -> None:
    parsed = Partition(family, index).key.parse()
    expected = PartitionFamily.FLOW if family is PartitionFamily.EXECUTION else family
    assert parsed == Partition(expected, index)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("fp:7", "braces"),
        ("{fp:7", "braces"),
        ("", "braces"),
        ("{", "braces"),
        (7, "braces"),
        ("{fp7}", "prefix and an index"),
        ("{fp:7:8}", "prefix and an index"),
        ("{{fp:7}}", "prefix and an index"),
        ("{x:7}", "one of fp, b, q"),
        ("{:7}", "one of fp, b, q"),
        ("{fp:}", "without leading zeros"),
        ("{fp:07}", "without leading zeros"),
        ("{fp:65536}", "0 to 65535"),
        ("{fp:-1}", "0 to 65535"),
        ("{fp:\u0663}", "0 to 65535"),
    ],
)
def test_each_way_to_misspell_a_key_has_its_own_answer(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as caught:
        PartitionKey(text)
    assert caught.value.field == "partition_key"


@pytest.mark.parametrize(("family", "index"), [("flows", 1), (PartitionFamily.FLOW, -1), (PartitionFamily.FLOW, 65536)])
def test_a_partition_refuses_what_no_tag_can_say(family: PartitionFamily, index: int) -> None:
    with pytest.raises(InvalidInput):
        Partition(family, index)


@pytest.mark.parametrize("shards", [1, 8])
def test_a_flow_can_live_where_a_lane_does(shards: int) -> None:
    config = PartitionConfig(lane_shards=shards)
    lane = LaneId("agents")
    homes = {flow_partition(FlowId.for_lane(lane, config), config) for _ in range(100)}
    assert homes <= set(lane_partitions(lane, config))
    assert (len(homes) > 1) == (shards > 1)


def test_the_flow_of_a_uuid_is_always_the_same_in_a_lane() -> None:
    config, lane, uuid = PartitionConfig(), LaneId("agents"), FlowId.new()
    assert FlowId.for_lane(lane, config, uuid) == FlowId.for_lane(lane, config, uuid)
    assert FlowId.for_lane(lane, config, uuid)[:32] == uuid[:32]
