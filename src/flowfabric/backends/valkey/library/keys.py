"""The keys that Python names. Functions build every other key from the core key, whose hash tag routes the call.

A key is `ff:<family>:<tag>:...`; the tag `{fp:N}` of the partition is what a cluster hashes, so all keys of an
execution live on one node. docs/reference/keys.md lists the whole key space.
"""

from __future__ import annotations

from flowfabric.core.ids import BudgetId, ExecutionId, FlowId, LaneId, QuotaPolicyId, WorkerInstanceId
from flowfabric.core.partition import Partition, PartitionConfig, PartitionFamily, budget_partition, quota_partition

_SPECIAL = frozenset("%:=")

PARTITION_RECORD = "ff:config:partitions"
# Workers, and engines, are few: all of each kind share a slot.
WORKERS_BY_EXPIRY = "ff:worker:{workers}:by_expiry"
WORKERS_BY_NAME = "ff:worker:{workers}:by_name"
ENGINE_SHARES = "ff:engine:{engines}:shares"


def core(execution_id: ExecutionId) -> str:
    return f"ff:exec:{execution_id.tag}:{execution_id}:core"


def flow_core(tag: str, flow_id: FlowId) -> str:
    return f"ff:flow:{tag}:{flow_id}:core"


def edge_group(tag: str, flow_id: FlowId, downstream: ExecutionId) -> str:
    return f"ff:flow:{tag}:{flow_id}:edgegroup:{downstream}"


def claim_grant(execution_id: ExecutionId) -> str:
    return f"ff:exec:{execution_id.tag}:{execution_id}:claim_grant"


def part(name: str) -> str:
    """Escape a caller's name for use inside a key: no colons, so that no two names share a key.

    Only the last part of a key may hold a raw name. Ordinary names stay as they are, as in lua/lib/base/names.lua.
    """
    if _SPECIAL.isdisjoint(name):
        return name
    return name.replace("%", "%25").replace(":", "%3A").replace("=", "%3D")


def name_of(text: str) -> str:
    """Unescape a name."""
    return text.replace("%3D", "=").replace("%3A", ":").replace("%25", "%")


def idempotency(tag: str, namespace: str, key: str) -> str:
    return f"ff:idem:{tag}:{owned(namespace, key)}"


def owned(namespace: str, name: str) -> str:
    """A name scoped to a namespace, so that tenants cannot collide."""
    return f"{part(namespace)}:{name}"


def label(key: str, value: str) -> str:
    """A tag as part of an index key."""
    return f"{part(key)}={value}"


def worker(namespace: str, worker_instance_id: str) -> str:
    return f"ff:worker:{{workers}}:{owned(namespace, part(worker_instance_id))}:caps"


def lane_config(tag: str, lane_id: LaneId) -> str:
    return f"ff:lane:{tag}:{part(lane_id)}:config"


def waitpoint_secrets(tag: str) -> str:
    return f"ff:sec:{tag}:waitpoint_hmac"


def wake_channel(lane_id: LaneId) -> str:
    return f"ff:wake:{lane_id}"


BUDGET_CHANNEL = "ff:budget"
DUE_CHANNEL = "ff:due"


def hand_channel(worker_instance_id: WorkerInstanceId) -> str:
    return f"ff:hand:{worker_instance_id}"


def events(tag: str) -> str:
    """The partition's event log; batches are routed by it."""
    return f"ff:part:{tag}:events"


def event_lines(tag: str) -> str:
    """The counter of lines ever written to the partition's event log."""
    return f"ff:part:{tag}:event_lines"


def stream(execution_id: ExecutionId, attempt_index: int) -> str:
    return f"ff:stream:{execution_id.tag}:{execution_id}:{attempt_index}"


def summary(execution_id: ExecutionId, attempt_index: int) -> str:
    return f"ff:attempt:{execution_id.tag}:{execution_id}:{attempt_index}:summary"


def budget(budget_id: BudgetId, partitions: PartitionConfig) -> str:
    return f"ff:budget:{budget_partition(budget_id, partitions).tag}:{budget_id}"


def quota(quota_policy_id: QuotaPolicyId, partitions: PartitionConfig) -> str:
    return f"ff:quota:{quota_partition(quota_policy_id, partitions).tag}:{quota_policy_id}"


def usage_dedup(budget_id: BudgetId, dedup_key: str, partitions: PartitionConfig) -> str:
    """One key per budget: the same dedup id may be reported to several budgets."""
    return f"ff:usagededup:{budget_partition(budget_id, partitions).tag}:{budget_id}:{dedup_key}"


def attachments(tag: str) -> str:
    """The limits attached to scopes of a partition's executions."""
    return f"ff:attach:{tag}"


def noop(tag: str) -> str:
    """A placeholder for a key position that the function does not read; never written."""
    return f"ff:noop:{tag}"


def tag_of(key: str) -> str:
    """The hash tag of a key, braces included."""
    return key[key.index("{") : key.index("}") + 1]


def tags_of(partitions: PartitionConfig) -> list[str]:
    """The tags of all partitions that hold executions."""
    return [Partition(PartitionFamily.FLOW, index).tag for index in range(partitions.num_flow_partitions)]


def known_tags(partitions: PartitionConfig) -> frozenset[str]:
    """Every hash tag in use in the store."""
    quotas = (Partition(PartitionFamily.QUOTA, index).tag for index in range(partitions.num_quota_partitions))
    return frozenset((*tags_of(partitions), *budget_tags_of(partitions), *quotas, "{workers}", "{engines}"))


def budget_tags_of(partitions: PartitionConfig) -> list[str]:
    """The tags of all partitions that hold budgets."""
    return [Partition(PartitionFamily.BUDGET, index).tag for index in range(partitions.num_budget_partitions)]


def index_of(tag: str) -> int:
    """The index of a partition of executions."""
    return int(tag[4:-1])
