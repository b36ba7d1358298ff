"""Budgets and quotas as another program calls them: plain FCALL with the positions of the public wire."""

from __future__ import annotations

import uuid
from typing import Any

import valkey

from tests.valkey.wire.wire import Reply, decode


class Limit:
    """The keys that budgets and quotas share."""

    family = ""

    def __init__(self, client: valkey.Valkey) -> None:
        self.client: Any = client  # its types say that every reply may be awaitable
        self.tag = f"{{{self.family[0]}:7}}"
        self.id = str(uuid.uuid4())
        self.key = f"ff:{self.family}:{self.tag}:{self.id}"

    def fcall(self, function: str, keys: list[str], *args: object) -> Reply:
        return decode(self.client.execute_command("FCALL", function, len(keys), *keys, *args))

    def hash(self, suffix: str = "") -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.client.hgetall(self.key + suffix).items()}


class Budget(Limit):
    family = "budget"

    def create(self, *limits: tuple[str, int, int], interval: object = 0, on_hard: str = "reject") -> Reply:
        """limits: dimension, hard, soft."""
        keys = [
            self.key, f"{self.key}:limits", f"{self.key}:usage", f"ff:idx:{self.tag}:budget_resets",
            f"ff:idx:{self.tag}:budget_policies",
        ]  # fmt: skip
        columns = [part for column in zip(*limits, strict=True) for part in column]
        return self.fcall("ff_create_budget", keys, self.id, "lane", "default", "strict", on_hard, "warn", interval,
                          1_700_000_000_000, len(limits), *columns)  # fmt: skip

    def report(self, dedup: str = "", now: object = 1_700_000_000_001, **deltas: object) -> Reply:
        keys = [f"{self.key}:usage", f"{self.key}:limits", self.key]
        given = [dedup] if dedup else []
        return self.fcall("ff_report_usage_and_check", keys, len(deltas), *deltas, *deltas.values(), now, *given)

    def spend(self, execution_id: str = "", dedup: str = "", **deltas: object) -> Reply:
        keys = [
            f"{self.key}:usage", f"{self.key}:limits", self.key, f"{self.key}:by_exec:{execution_id}",
            f"{self.key}:by_exec:index",
        ]  # fmt: skip
        pairs = [part for pair in deltas.items() for part in pair]
        return self.fcall("ff_record_spend", keys, len(deltas), *pairs, 1_700_000_000_001, dedup, execution_id)

    def release(self, execution_id: str) -> Reply:
        keys = [f"{self.key}:usage", f"{self.key}:by_exec:{execution_id}", f"{self.key}:by_exec:index"]
        return self.fcall("ff_release_budget", keys, self.id, execution_id)

    def reset(self, now: object = 1_700_000_005_000) -> Reply:
        keys = [self.key, f"{self.key}:usage", f"ff:idx:{self.tag}:budget_resets"]
        return self.fcall("ff_reset_budget", keys, self.id, now)

    def dedup(self, name: str) -> str:
        return f"ff:usagededup:{self.tag}:{name}"


class Quota(Limit):
    family = "quota"

    def create(self, window: object = 60, rate: object = 2, cap: object = 2, *appended: object) -> Reply:
        keys = [
            self.key, f"{self.key}:window:requests_per_window", f"{self.key}:concurrency", f"{self.key}:admitted_set",
            f"ff:idx:{self.tag}:quota_policies",
        ]  # fmt: skip
        return self.fcall("ff_create_quota_policy", keys, self.id, window, rate, cap, 1_700_000_000_000, *appended)

    def check(
        self, execution_id: str, now: object, *, window: object = 60, rate: object = 2, cap: object = 0,
        jitter: object = 0,
    ) -> Reply:  # fmt: skip
        keys = [
            f"{self.key}:window:requests_per_window", f"{self.key}:concurrency", self.key,
            f"{self.key}:admitted:{execution_id}", f"{self.key}:admitted_set",
        ]  # fmt: skip
        return self.fcall("ff_check_admission_and_record", keys, now, window, rate, cap, execution_id, jitter)

    def release(self, execution_id: str) -> Reply:
        keys = [f"{self.key}:admitted:{execution_id}", f"{self.key}:admitted_set", f"{self.key}:concurrency"]
        return self.fcall("ff_release_admission", keys, execution_id)
