"""A worker of the Rust line (crate ff-sdk 0.2.0), as a test: it sends and reads what that worker does, byte for byte.

It knows the 0.2.0 wire alone: the positions of keys and arguments, the key names, and which fields it reads without a
function. Nothing of this package is imported, and no reply is read further than 0.2.0 does.
"""

from __future__ import annotations

import json
import time
import uuid
from typing import Any, NamedTuple

import valkey

Reply = list[Any]

LEASE_TTL_MS = 30_000


class Refused(Exception):
    """A function answered with a code."""

    def __init__(self, code: str, *details: str) -> None:
        super().__init__(code, *details)
        self.code, self.details = code, details


def fresh() -> str:
    return str(uuid.uuid4())


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


class Keys:
    """The key names of one execution."""

    def __init__(self, execution_id: str, lane: str) -> None:
        self.tag = execution_id.partition("}")[0] + "}"
        self.id, self.lane = execution_id, lane

    def of(self, part: str) -> str:
        return f"ff:exec:{self.tag}:{self.id}:{part}"

    def attempt(self, index: int, part: str = "") -> str:
        return f"ff:attempt:{self.tag}:{self.id}:{index}{part}"

    def stream(self, index: int, part: str = "") -> str:
        return f"ff:stream:{self.tag}:{self.id}:{index}{part}"

    def idx(self, name: str) -> str:
        return f"ff:idx:{self.tag}:{name}"

    def in_lane(self, name: str) -> str:
        return f"ff:idx:{self.tag}:lane:{self.lane}:{name}"

    def waitpoint(self, waitpoint_id: str, part: str = "") -> str:
        return f"ff:wp:{self.tag}:{waitpoint_id}{part}"

    def signal(self, signal_id: str, part: str = "") -> str:
        return f"ff:signal:{self.tag}:{signal_id}{part}"

    @property
    def secrets(self) -> str:
        return f"ff:sec:{self.tag}:waitpoint_hmac"

    @property
    def noop(self) -> str:
        return f"ff:noop:{self.tag}"


class ResumeSignal(NamedTuple):
    name: str
    payload: bytes | None


class Suspended(NamedTuple):
    waitpoint_id: str
    token: str


class Connection:
    """Calls functions as the crate does: the envelope first, then what it reads of it."""

    def __init__(self, client: valkey.Valkey) -> None:
        self.client = client

    def call(self, function: str, keys: list[str], *args: object) -> tuple[str, Reply]:
        """The status word and the fields; a refusal raises."""
        reply = self.client.execute_command("FCALL", function, len(keys), *keys, *args)
        assert isinstance(reply, list), reply
        assert isinstance(reply[0], int), reply
        word, *fields = (text(each) for each in reply[1:])
        if reply[0] == 0:
            raise Refused(word, *fields)
        return word, fields

    def partition_counts(self) -> dict[str, int]:
        """Read directly; a field that is missing or no number has its default."""
        defaults = {"num_flow_partitions": 256, "num_budget_partitions": 32, "num_quota_partitions": 32}
        found = {text(name): text(value) for name, value in self.client.hgetall("ff:config:partitions").items()}
        given = {name: found.get(name, "") for name in defaults}
        return {name: int(given[name]) if given[name].isdigit() else usual for name, usual in defaults.items()}

    def report_usage(self, budget: str, dims: dict[str, int], dedup: str = "") -> tuple[str, Reply]:
        tag = budget.removeprefix("ff:budget:").partition("}")[0] + "}"
        key = f"ff:usagededup:{tag}:{dedup}" if dedup else ""
        return self.call(
            "ff_report_usage_and_check", [f"{budget}:usage", f"{budget}:limits", budget],
            len(dims), *dims, *dims.values(), now_ms(), key,
        )  # fmt: skip

    def deliver_signal(self, execution_id: str, waitpoint_id: str, token: str, name: str, payload: str = "") -> Reply:
        keys, signal_id = Keys(execution_id, ""), fresh()
        keys.lane = text(self.client.hget(keys.of("core"), "lane_id"))
        return self.call(
            "ff_deliver_signal",
            [
                keys.of("core"), keys.waitpoint(waitpoint_id, ":condition"), keys.waitpoint(waitpoint_id, ":signals"),
                keys.of("signals"), keys.signal(signal_id), keys.signal(signal_id, ":payload"), keys.noop,
                keys.waitpoint(waitpoint_id), keys.of("suspension:current"), keys.in_lane("eligible"),
                keys.in_lane("suspended"), keys.in_lane("delayed"), keys.idx("suspension_timeout"), keys.secrets,
            ],
            signal_id, execution_id, waitpoint_id, name, "external", "api", "someone", payload, "json", "", "",
            "waitpoint", now_ms(), 86_400_000, 0, 1000, 10_000, token,
        )[1]  # fmt: skip

    def kids(self, tag: str) -> tuple[str, list[tuple[str, int]]]:
        """The current kid, and pairs of kid and expiry to the end of the reply."""
        _, (current, count, *rest) = self.call("ff_list_waitpoint_hmac_kids", [f"ff:sec:{tag}:waitpoint_hmac"])
        pairs = [(kid, int(expiry)) for kid, expiry in zip(rest[::2], rest[1::2], strict=True)]
        assert len(pairs) == int(count)
        return current, pairs

    def tail(self, keys: Keys, index: int, last_id: str, block_ms: int = 0) -> tuple[list[dict[str, str]], str | None]:
        """Plain XREAD, then the meta hash: the frames, and why the stream was closed."""
        found: Any = self.client.xread({keys.stream(index): last_id}, block=block_ms or None)
        frames = [{text(k): text(v) for k, v in entry.items()} for _, entries in found for _, entry in entries]
        _, reason = self.client.hmget(keys.stream(index, ":meta"), "closed_at", "closed_reason")
        return frames, text(reason) or None


class Worker(Connection):
    """Claims without a server: the head of `eligible`, a grant, a claim."""

    def __init__(self, client: valkey.Valkey, lane: str, tags: list[str], capabilities: str = "") -> None:
        super().__init__(client)
        self.id, self.instance = "rust-worker", f"rust-{fresh()}"
        self.lane, self.tags, self.capabilities = lane, tags, capabilities

    def claim_next(self) -> Task | None:
        """One look at each partition. None: nothing was found there that this worker may run."""
        for tag in self.tags:
            heads: Any = self.client.zrangebyscore(f"ff:idx:{tag}:lane:{self.lane}:eligible", "-inf", "+inf", 0, 1)
            if heads and (task := self._try(text(heads[0]))):
                return task
        return None

    def _try(self, execution_id: str) -> Task | None:
        keys = Keys(execution_id, self.lane)
        try:
            self.grant(keys)
        except Refused as refused:
            if refused.code != "capability_mismatch":
                return None
            self.block(keys)
            return None
        try:
            return self._claim(keys)
        except Refused as refused:
            if refused.code != "use_claim_resumed_execution":
                raise
            return self._claim_resumed(keys)

    def grant(self, keys: Keys) -> None:
        self.call(
            "ff_issue_claim_grant", [keys.of("core"), keys.of("claim_grant"), keys.in_lane("eligible")],
            keys.id, self.id, self.instance, self.lane, "", 5000, "", "", self.capabilities,
        )  # fmt: skip

    def block(self, keys: Keys) -> None:
        """What nobody here can run leaves the head of the queue."""
        self.call(
            "ff_block_execution_for_admission",
            [keys.of("core"), keys.in_lane("eligible"), keys.in_lane("blocked:route")],
            keys.id, "waiting_for_capable_worker", "no worker is capable", now_ms(),
        )  # fmt: skip

    def leases(self, keys: Keys) -> str:
        return keys.idx(f"worker:{self.instance}:leases")

    def _claim(self, keys: Keys) -> Task:
        count = text(self.client.hget(keys.of("core"), "total_attempt_count"))
        index = int(count) if count else 0
        _, fields = self.call(
            "ff_claim_execution",
            [
                keys.of("core"), keys.of("claim_grant"), keys.in_lane("eligible"), keys.idx("lease_expiry"),
                self.leases(keys), keys.attempt(index), keys.attempt(index, ":usage"), keys.attempt(index, ":policy"),
                keys.of("attempts"), keys.of("lease:current"), keys.of("lease:history"), keys.in_lane("active"),
                keys.idx("attempt_timeout"), keys.idx("execution_deadline"),
            ],
            keys.id, self.id, self.instance, self.lane, "", fresh(), LEASE_TTL_MS, LEASE_TTL_MS * 2 // 3, fresh(), "{}",
            "", "",
        )  # fmt: skip
        return Task(self, keys, fields)

    def _claim_resumed(self, keys: Keys) -> Task:
        given = text(self.client.hget(keys.of("core"), "current_attempt_index"))
        index = int(given) if given else 0
        _, fields = self.call(
            "ff_claim_resumed_execution",
            [
                keys.of("core"), keys.of("claim_grant"), keys.in_lane("eligible"), keys.idx("lease_expiry"),
                self.leases(keys), keys.attempt(index), keys.of("lease:current"), keys.of("lease:history"),
                keys.in_lane("active"), keys.idx("attempt_timeout"), keys.idx("execution_deadline"),
            ],
            keys.id, self.id, self.instance, self.lane, "", fresh(), LEASE_TTL_MS, "",
        )  # fmt: skip
        return Task(self, keys, fields)

    def reclaim(self, keys: Keys, old_index: int) -> Task:
        """Take over an execution whose lease was lost."""
        fence = (keys.id, self.id, self.instance, self.lane)
        self.call(
            "ff_issue_reclaim_grant", [keys.of("core"), keys.of("claim_grant"), keys.idx("lease_expiry")],
            *fence, "", 5000, "", "", self.capabilities,
        )  # fmt: skip
        _, fields = self.call(
            "ff_reclaim_execution",
            [
                keys.of("core"), keys.of("claim_grant"), keys.attempt(old_index), keys.stream(old_index, ":meta"),
                keys.attempt(old_index + 1), keys.attempt(old_index + 1, ":usage"), keys.of("attempts"),
                keys.of("lease:current"), keys.of("lease:history"), keys.idx("lease_expiry"), self.leases(keys),
                keys.in_lane("active"), keys.idx("attempt_timeout"), keys.idx("execution_deadline"),
            ],
            *fence, fresh(), LEASE_TTL_MS, fresh(), "",
        )  # fmt: skip
        return Task(self, keys, fields)


class Task:
    """What a claim gave: the fence from its reply, the rest read directly."""

    def __init__(self, worker: Worker, keys: Keys, fields: Reply) -> None:
        self.worker, self.keys, self.client = worker, keys, worker.client
        self.lease, epoch, _, self.attempt, index, self.kind_of_attempt = fields[:6]
        self.epoch, self.index = int(epoch), int(index)
        self.payload: bytes = self.client.get(keys.of("payload")) or b""
        self.execution_kind = text(self.client.hget(keys.of("core"), "execution_kind")) or ""
        self.tags = {text(name): text(value) for name, value in self.client.hgetall(keys.of("tags")).items()}

    @property
    def fence(self) -> tuple[object, ...]:
        return self.keys.id, self.lease, self.epoch, self.attempt

    def _ending(self, *more: str) -> list[str]:
        keys = self.keys
        return [
            keys.of("core"), keys.attempt(self.index), keys.idx("lease_expiry"), self.worker.leases(keys),
            keys.in_lane("terminal"), *more,
        ]  # fmt: skip

    def complete(self, result: bytes = b"") -> None:
        keys = self.keys
        named = self._ending(
            keys.of("lease:current"), keys.of("lease:history"), keys.in_lane("active"),
            keys.stream(self.index, ":meta"), keys.of("result"), keys.idx("attempt_timeout"),
            keys.idx("execution_deadline"),
        )  # fmt: skip
        self.worker.call("ff_complete_execution", named, *self.fence, result)

    def fail(self, reason: str, category: str) -> str:
        """The retry policy is cut out of the stored policy, and sent along."""
        keys = self.keys
        stored = self.client.get(keys.of("policy"))
        policy = json.loads(stored) if stored else None
        retry = json.dumps(policy["retry_policy"]) if isinstance(policy, dict) and "retry_policy" in policy else ""
        named = self._ending(
            keys.in_lane("delayed"), keys.of("lease:current"), keys.of("lease:history"), keys.in_lane("active"),
            keys.stream(self.index, ":meta"), keys.idx("attempt_timeout"), keys.idx("execution_deadline"),
        )  # fmt: skip
        return str(self.worker.call("ff_fail_execution", named, *self.fence, reason, category, retry)[1][0])

    def cancel(self, reason: str) -> None:
        keys = self.keys
        waitpoint = text(self.client.hget(keys.of("core"), "current_waitpoint_id")) or str(uuid.UUID(int=0))
        blocked = ("dependencies", "budget", "quota", "route", "operator")
        named = [
            keys.of("core"), keys.attempt(self.index), keys.stream(self.index, ":meta"), keys.of("lease:current"),
            keys.of("lease:history"), keys.idx("lease_expiry"), self.worker.leases(keys),
            keys.of("suspension:current"), keys.waitpoint(waitpoint), keys.waitpoint(waitpoint, ":condition"),
            keys.idx("suspension_timeout"), keys.in_lane("terminal"), keys.idx("attempt_timeout"),
            keys.idx("execution_deadline"), keys.in_lane("eligible"), keys.in_lane("delayed"),
            *(keys.in_lane(f"blocked:{name}") for name in blocked),
        ]  # fmt: skip
        self.worker.call("ff_cancel_execution", named, keys.id, reason, "worker", self.lease, self.epoch)

    def renew(self) -> None:
        keys = self.keys
        named = [keys.of("core"), keys.of("lease:current"), keys.of("lease:history"), keys.idx("lease_expiry")]
        self.worker.call(
            "ff_renew_lease", named, keys.id, self.index, self.attempt, self.lease, self.epoch, LEASE_TTL_MS, 5000
        )

    def update_progress(self, percent: int, message: str) -> None:
        core = [self.keys.of("core")]
        self.worker.call("ff_update_progress", core, self.keys.id, self.lease, self.epoch, percent, message)

    def delay(self, until_ms: int) -> None:
        keys = self.keys
        named = [
            keys.of("core"), keys.attempt(self.index), keys.of("lease:current"), keys.of("lease:history"),
            keys.idx("lease_expiry"), self.worker.leases(keys), keys.in_lane("active"), keys.in_lane("delayed"),
            keys.idx("attempt_timeout"),
        ]  # fmt: skip
        self.worker.call("ff_delay_execution", named, *self.fence, until_ms)

    def append_frame(self, kind: str, payload: str) -> str:
        keys = self.keys
        named = [keys.of("core"), keys.stream(self.index), keys.stream(self.index, ":meta")]
        fields = self.worker.call(
            "ff_append_frame", named, keys.id, self.index, self.lease, self.epoch, kind, now_ms(), payload, "utf8", "",
            "worker", 10_000, self.attempt, 65_536,
        )[1]  # fmt: skip
        return str(fields[0])

    def suspend(self, *names: str, timeout_ms: int | None = None, behavior: str = "fail") -> Suspended:
        keys, suspension, waitpoint = self.keys, fresh(), fresh()
        condition = json.dumps({
            "condition_type": "signal_set", "required_signal_names": names,
            "signal_match_mode": "any" if len(names) <= 1 else "all", "minimum_signal_count": 1,
            "timeout_behavior": behavior, "allow_operator_override": True,
        })  # fmt: skip
        policy = json.dumps({
            "resume_target": "runnable", "close_waitpoint_on_resume": True, "consume_matched_signals": True,
            "retain_signal_buffer_until_closed": True,
        })  # fmt: skip
        named = [
            keys.of("core"), keys.attempt(self.index), keys.of("lease:current"), keys.of("lease:history"),
            keys.idx("lease_expiry"), self.worker.leases(keys), keys.of("suspension:current"),
            keys.waitpoint(waitpoint), keys.waitpoint(waitpoint, ":signals"), keys.idx("suspension_timeout"),
            keys.idx("pending_waitpoint_expiry"), keys.in_lane("active"), keys.in_lane("suspended"),
            keys.of("waitpoints"), keys.waitpoint(waitpoint, ":condition"), keys.idx("attempt_timeout"), keys.secrets,
        ]  # fmt: skip
        fields = self.worker.call(
            "ff_suspend_execution", named, keys.id, self.index, self.attempt, self.lease, self.epoch, suspension,
            waitpoint, f"wpk:{waitpoint}", "waiting_for_signal", "worker",
            "" if timeout_ms is None else now_ms() + timeout_ms, condition, policy, "", "", behavior, 1000,
        )[1]  # fmt: skip
        return Suspended(waitpoint, str(fields[3]))

    def resume_signals(self) -> list[ResumeSignal]:
        """What ended the wait: the suspension names the waitpoint, and the waitpoint's condition the signals."""
        keys, client = self.keys, self.client
        last = {text(k): text(v) for k, v in client.hgetall(keys.of("suspension:current")).items()}
        if last.get("attempt_index") != str(self.index) or last.get("close_reason") != "resumed":
            return []
        condition = keys.waitpoint(last["waitpoint_id"], ":condition")
        found = []
        for at in range(int(client.hget(condition, "total_matchers") or 0)):
            satisfied, signal_id = client.hmget(condition, f"matcher:{at}:satisfied", f"matcher:{at}:signal_id")
            if satisfied == b"1" and signal_id:
                name = text(client.hget(keys.signal(text(signal_id)), "signal_name"))
                found.append(ResumeSignal(name, client.get(keys.signal(text(signal_id), ":payload"))))
        return found
