"""A program in another language, as a test: plain FCALL with the positions of the public wire, no project code.

The key lists repeat the documented order on purpose; they are what other programs send.
"""

from __future__ import annotations

import uuid
from typing import Any

import valkey

Reply = list[Any]


class Execution:
    """One execution's documented keys and the calls a direct caller makes."""

    def __init__(self, client: valkey.Valkey, *, lane: str = "default", worker: str = "w-1") -> None:
        self.client: Any = client  # its types say that every reply may be awaitable
        self.tag = "{fp:7}"
        self.id = f"{self.tag}:{uuid.uuid4()}"
        self.lane = lane
        self.instance = f"{worker}-instance"
        self.worker = worker
        self.lease, self.attempt = str(uuid.uuid4()), str(uuid.uuid4())

    def fcall(self, function: str, keys: list[str], *args: object) -> Reply:
        return decode(self.client.execute_command("FCALL", function, len(keys), *keys, *args))

    def exec(self, part: str) -> str:
        return f"ff:exec:{self.tag}:{self.id}:{part}"

    def att(self, index: int, suffix: str = "") -> str:
        return f"ff:attempt:{self.tag}:{self.id}:{index}{suffix}"

    def smeta(self, index: int) -> str:
        return f"ff:stream:{self.tag}:{self.id}:{index}:meta"

    def idx(self, name: str) -> str:
        return f"ff:idx:{self.tag}:{name}"

    def lane_idx(self, name: str) -> str:
        return f"ff:idx:{self.tag}:lane:{self.lane}:{name}"

    @property
    def core(self) -> str:
        return self.exec("core")

    @property
    def worker_leases(self) -> str:
        return self.idx(f"worker:{self.instance}:leases")

    def field(self, name: str) -> str | None:
        value = self.client.hget(self.core, name)
        return value.decode() if value is not None else None

    def create(
        self,
        *,
        priority: object = 0,
        policy: str = "",
        payload: object = b"in",
        delay_until: object = "",
        idem: str = "",
        ttl: object = "",
        tags: str = "",
        deadline: object = "",
        zset: str = "eligible",
    ) -> Reply:
        keys = [
            self.core, self.exec("payload"), self.exec("policy"), self.exec("tags"), self.lane_idx(zset),
            f"ff:idem:{self.tag}:ns:{idem}" if idem else f"ff:noop:{self.tag}",
            self.idx("execution_deadline"), self.idx("all_executions"),
        ]  # fmt: skip
        return self.fcall("ff_create_execution", keys, self.id, "ns", self.lane, "kind", priority, "creator", policy,
                          payload, delay_until, ttl, tags, deadline, 7)  # fmt: skip

    def grant(self, *, worker: str = "", ttl: object = 5000, capabilities: str = "") -> Reply:
        keys = [self.core, self.exec("claim_grant"), self.lane_idx("eligible")]
        return self.fcall("ff_issue_claim_grant", keys, self.id, worker or self.worker, self.instance, self.lane, "",
                          ttl, "", "", capabilities)  # fmt: skip

    def claim(self, *, ttl: object = 30_000, timeout: object = "", deadline: object = "", policy: str = "") -> Reply:
        keys = [
            self.core, self.exec("claim_grant"), self.lane_idx("eligible"), self.idx("lease_expiry"),
            self.worker_leases, self.att(0), self.att(0, ":usage"), self.att(0, ":policy"), self.exec("attempts"),
            self.exec("lease:current"), self.exec("lease:history"), self.lane_idx("active"),
            self.idx("attempt_timeout"), self.idx("execution_deadline"),
        ]  # fmt: skip
        return self.fcall("ff_claim_execution", keys, self.id, self.worker, self.instance, self.lane, "", self.lease,
                          ttl, 20_000, self.attempt, policy, timeout, deadline)  # fmt: skip

    def run(self, **claim: object) -> Execution:
        """Create, grant and claim."""
        assert self.create()[0] == 1
        assert self.grant()[0] == 1
        assert self.claim(**claim)[0] == 1  # type: ignore[arg-type]
        return self

    def complete(self, *, lease: str | None = None, epoch: object = 1, attempt: str | None = None,
                 result: object = b"out", extra: tuple[object, ...] = ()) -> Reply:  # fmt: skip
        keys = [
            self.core, self.att(0), self.idx("lease_expiry"), self.worker_leases, self.lane_idx("terminal"),
            self.exec("lease:current"), self.exec("lease:history"), self.lane_idx("active"), self.smeta(0),
            self.exec("result"), self.idx("attempt_timeout"), self.idx("execution_deadline"),
        ]  # fmt: skip
        lease = self.lease if lease is None else lease
        attempt = self.attempt if attempt is None else attempt
        return self.fcall("ff_complete_execution", keys, self.id, lease, epoch, attempt, result, *extra)

    def fail(self, *, policy: str = "", category: str = "transient", extra: tuple[object, ...] = ()) -> Reply:
        keys = [
            self.core, self.att(0), self.idx("lease_expiry"), self.worker_leases, self.lane_idx("terminal"),
            self.lane_idx("delayed"), self.exec("lease:current"), self.exec("lease:history"), self.lane_idx("active"),
            self.smeta(0), self.idx("attempt_timeout"), self.idx("execution_deadline"),
        ]  # fmt: skip
        return self.fcall("ff_fail_execution", keys, self.id, self.lease, 1, self.attempt, "boom", category, policy,
                          *extra)  # fmt: skip

    def cancel(self, source: str = "operator_override", *, lease: str = "", epoch: object = "") -> Reply:
        keys = [
            self.core, self.att(0), self.smeta(0), self.exec("lease:current"), self.exec("lease:history"),
            self.idx("lease_expiry"), self.worker_leases, self.exec("suspension:current"), f"ff:wp:{self.tag}:none",
            f"ff:wp:{self.tag}:none:condition", self.idx("suspension_timeout"), self.lane_idx("terminal"),
            self.idx("attempt_timeout"), self.idx("execution_deadline"), self.lane_idx("eligible"),
            self.lane_idx("delayed"),
            *(self.lane_idx(f"blocked:{name}") for name in ("dependencies", "budget", "quota", "route", "operator")),
        ]  # fmt: skip
        return self.fcall("ff_cancel_execution", keys, self.id, "enough", source, lease, epoch)

    def _release_keys(self, last: str) -> list[str]:
        return [
            self.core, self.att(0), self.exec("lease:current"), self.exec("lease:history"), self.idx("lease_expiry"),
            self.worker_leases, self.lane_idx("active"), self.lane_idx(last), self.idx("attempt_timeout"),
        ]  # fmt: skip

    def delay(self, until: object) -> Reply:
        return self.fcall("ff_delay_execution", self._release_keys("delayed"), self.id, self.lease, 1, self.attempt,
                          until)  # fmt: skip

    def move_to_waiting_children(self, *extra: object) -> Reply:
        keys = self._release_keys("blocked:dependencies")
        return self.fcall("ff_move_to_waiting_children", keys, self.id, self.lease, 1, self.attempt, *extra)

    def expire(self, reason: str | None = None) -> Reply:
        keys = [
            self.core, self.att(0), self.smeta(0), self.exec("lease:current"), self.exec("lease:history"),
            self.idx("lease_expiry"), self.worker_leases, self.lane_idx("active"), self.lane_idx("terminal"),
            self.idx("attempt_timeout"), self.idx("execution_deadline"), self.lane_idx("suspended"),
            self.idx("suspension_timeout"), self.exec("suspension:current"),
        ]  # fmt: skip
        return self.fcall("ff_expire_execution", keys, self.id, *([reason] if reason else []))

    def renew(self, *, ttl: object = 30_000, index: object = 0, epoch: object = 1, grace: object = 5000) -> Reply:
        keys = [self.core, self.exec("lease:current"), self.exec("lease:history"), self.idx("lease_expiry")]
        return self.fcall("ff_renew_lease", keys, self.id, index, self.attempt, self.lease, epoch, ttl, grace)

    def mark_expired(self) -> Reply:
        keys = [self.core, self.exec("lease:current"), self.idx("lease_expiry"), self.exec("lease:history")]
        return self.fcall("ff_mark_lease_expired_if_due", keys, self.id)

    def revoke(self, expected: str = "") -> Reply:
        keys = [
            self.core, self.exec("lease:current"), self.exec("lease:history"), self.idx("lease_expiry"),
            self.worker_leases,
        ]  # fmt: skip
        return self.fcall("ff_revoke_lease", keys, self.id, expected, "operator")

    def reclaim_grant(self, *, ttl: object = 5000, capabilities: str = "") -> Reply:
        keys = [self.core, self.exec("claim_grant"), self.idx("lease_expiry")]
        return self.fcall("ff_issue_reclaim_grant", keys, self.id, self.worker, self.instance, self.lane, "", ttl, "",
                          "", capabilities)  # fmt: skip

    def reclaim(self, *extra: object) -> Reply:
        keys = [
            self.core, self.exec("claim_grant"), self.att(0), self.smeta(0), self.att(1), self.att(1, ":usage"),
            self.exec("attempts"), self.exec("lease:current"), self.exec("lease:history"), self.idx("lease_expiry"),
            self.worker_leases, self.lane_idx("active"), self.idx("attempt_timeout"), self.idx("execution_deadline"),
        ]  # fmt: skip
        self.lease, self.attempt = str(uuid.uuid4()), str(uuid.uuid4())
        return self.fcall("ff_reclaim_execution", keys, self.id, self.worker, self.instance, self.lane, self.lease,
                          30_000, self.attempt, "", *extra)  # fmt: skip

    def claim_resumed(self, remaining: object = "") -> Reply:
        keys = [
            self.core, self.exec("claim_grant"), self.lane_idx("eligible"), self.idx("lease_expiry"),
            self.worker_leases, self.att(0), self.exec("lease:current"), self.exec("lease:history"),
            self.lane_idx("active"), self.idx("attempt_timeout"), self.idx("execution_deadline"),
        ]  # fmt: skip
        self.lease = str(uuid.uuid4())
        return self.fcall("ff_claim_resumed_execution", keys, self.id, self.worker, self.instance, self.lane, "",
                          self.lease, 30_000, remaining)  # fmt: skip

    def grant_and_claim(self, *extra: object) -> Reply:
        keys = [
            self.core, self.exec("claim_grant"), self.lane_idx("eligible"), self.idx("lease_expiry"),
            self.worker_leases, self.exec("attempts"), self.exec("lease:current"), self.exec("lease:history"),
            self.lane_idx("active"), self.idx("attempt_timeout"), self.idx("execution_deadline"),
        ]  # fmt: skip
        return self.fcall("ff_issue_grant_and_claim", keys, self.id, self.worker, self.instance, self.lane, "",
                          self.lease, 30_000, self.attempt, "", "", "", *extra)  # fmt: skip

    def change_priority(self, priority: object) -> Reply:
        return self.fcall("ff_change_priority", [self.core, self.lane_idx("eligible")], self.id, priority)

    def progress(self, pct: object = "", message: object = "") -> Reply:
        return self.fcall("ff_update_progress", [self.core], self.id, self.lease, 1, pct, message)

    def promote(self, now: object, *, zset: str = "delayed") -> Reply:
        keys = [self.core, self.lane_idx(zset), self.lane_idx("eligible")]
        return self.fcall("ff_promote_delayed", keys, self.id, now)

    def block(self, reason: str, index: str, now: object = 1_700_000_000_000) -> Reply:
        keys = [self.core, self.lane_idx("eligible"), self.lane_idx(f"blocked:{index}")]
        return self.fcall("ff_block_execution_for_admission", keys, self.id, reason, "because", now)

    def unblock(self, index: str, expected: str = "", now: object = 1_700_000_000_000) -> Reply:
        keys = [self.core, self.lane_idx(f"blocked:{index}"), self.lane_idx("eligible")]
        return self.fcall("ff_unblock_execution", keys, self.id, now, expected)

    def replay(self) -> Reply:
        keys = [self.core, self.lane_idx("terminal"), self.lane_idx("eligible"), self.exec("lease:history")]
        return self.fcall("ff_replay_execution", keys, self.id, 0)

    def watch(self, watcher: str) -> Reply:
        return self.fcall("ff_watch_execution", [self.core], watcher)

    def retry(self) -> Reply:
        return self.fcall(
            "ff_retry_execution", [self.core, self.lane_idx("terminal"), self.lane_idx("eligible")], self.id
        )

    def fork(self, fork_id: str, *more: object) -> Reply:
        return self.fcall("ff_fork_execution", [self.core], self.id, fork_id, *more)

    def set_tags(self, *pairs: str) -> Reply:
        return self.fcall("ff_set_execution_tags", [self.core, self.exec("tags")], *pairs)


def decode(reply: Any) -> Any:
    if isinstance(reply, bytes):
        return reply.decode(errors="surrogateescape")
    if isinstance(reply, list):
        return [decode(item) for item in reply]
    return reply
