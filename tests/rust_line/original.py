"""Records as the Rust original lays them out, written by hand from its wire contract: data that is not ours.

What tells them from ours: sets in place of sorted sets, every field of a record written, and "" where nothing is said.
"""

from __future__ import annotations

from typing import Any

import valkey

LANE, TAG = "default", "{fp:86}"
WAITING = f"{TAG}:11111111-1111-4111-8111-111111111111"
FINISHED = f"{TAG}:22222222-2222-4222-8222-222222222222"
FLOW = "33333333-3333-4333-8333-333333333333"
AT = "1700000000000"

# A library of the original's name and numbering. The function that both have answers as no function of ours does.
LIBRARY = """#!lua name=flowfabric
redis.register_function('ff_version', function() return '6' end)
redis.register_function('ff_cancel_execution', function(keys)
  redis.call('SET', 'ran-the-other-function', '1')
  return {1, 'OK', 'cancelled', 'runnable'}
end)
"""


def core(execution_id: str, **changed: str) -> dict[str, str]:
    """A record of an execution that waits; all fields are there."""
    named = {
        "execution_id": execution_id, "namespace": "default", "lane_id": LANE, "execution_kind": "resize",
        "partition_id": "86", "priority": "0", "creator_identity": "someone", "lifecycle_phase": "runnable",
        "ownership_state": "unowned", "eligibility_state": "eligible_now", "blocking_reason": "waiting_for_worker",
        "terminal_outcome": "none", "attempt_state": "pending_first_attempt", "public_state": "waiting",
        "total_attempt_count": "0", "retry_count": "0", "replay_count": "0", "lease_reclaim_count": "0",
        "current_lease_epoch": "0", "current_lane": LANE, "created_at": AT, "last_transition_at": AT,
        "last_mutation_at": AT,
    }  # fmt: skip
    empty = (
        "flow_id", "blocking_detail", "current_attempt_index", "current_attempt_id", "current_lease_id",
        "current_worker_id", "current_worker_instance_id", "current_suspension_id", "current_waitpoint_id",
        "lease_acquired_at", "lease_expires_at", "started_at", "completed_at", "delay_until", "progress_pct",
        "pending_retry_reason", "pending_previous_attempt_index",
    )  # fmt: skip
    return {**named, **dict.fromkeys(empty, ""), **changed}


def write_counts(client: valkey.Valkey) -> None:
    counts = {"num_flow_partitions": 256, "num_budget_partitions": 32, "num_quota_partitions": 32}
    client.hset("ff:config:partitions", mapping=counts)


def write_secrets(client: valkey.Valkey) -> None:
    client.hset(f"ff:sec:{TAG}:waitpoint_hmac", mapping={"current_kid": "k1", "secret:k1": "00" * 32})


def write_records(client: valkey.Valkey) -> None:
    """One that waits and one that has finished, with their indexes."""
    done = core(
        FINISHED, lifecycle_phase="terminal", eligibility_state="not_applicable", blocking_reason="none",
        terminal_outcome="success", attempt_state="attempt_terminal", public_state="completed",
        total_attempt_count="1", current_attempt_index="0", current_attempt_id=FLOW, started_at=AT, completed_at=AT,
    )  # fmt: skip
    for record in (core(WAITING), done):
        base = f"ff:exec:{TAG}:{record['execution_id']}"
        client.hset(f"{base}:core", mapping=record)
        client.set(f"{base}:payload", b'{"width":3}')
        client.sadd(f"ff:idx:{TAG}:all_executions", record["execution_id"])
    client.zadd(f"ff:idx:{TAG}:lane:{LANE}:eligible", {WAITING: int(AT)})
    client.zadd(f"ff:idx:{TAG}:lane:{LANE}:terminal", {FINISHED: int(AT)})
    client.xadd(f"ff:exec:{TAG}:{FINISHED}:lease:history", {"event": "released", "ts": AT})


def write_flow(client: valkey.Valkey) -> None:
    fields = {
        "flow_id": FLOW, "flow_kind": "pipeline", "namespace": "default", "graph_revision": 1, "node_count": 1,
        "edge_count": 0, "public_flow_state": "open", "created_at": AT, "last_mutation_at": AT,
    }  # fmt: skip
    client.hset(f"ff:flow:{TAG}:{FLOW}:core", mapping=fields)
    client.sadd(f"ff:flow:{TAG}:{FLOW}:members", WAITING)
    client.sadd(f"ff:idx:{TAG}:flow_index", FLOW)


def snapshot(client: valkey.Valkey) -> dict[bytes, Any]:
    """Every key with its value as the server serialises it, and the loaded functions."""
    keys: Any = client.keys("*")
    libraries: Any = client.execute_command("FUNCTION", "LIST", "WITHCODE")
    return {**{key: client.dump(key) for key in keys}, b"functions": libraries}
