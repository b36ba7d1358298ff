"""How each refusal of the functions of budgets, quotas and admission is provoked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tests.valkey.wire.limit_wire import Budget, Quota
from tests.valkey.wire.wire import Execution, Reply

Step = Callable[[Any], Any]
Scenario = tuple[str, str, Step, Step]

BUDGET_ID, QUOTA_ID = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
EMPTY = msgspec.msgpack.encode([])


def nothing(_: Execution) -> None: ...


def budget_of(x: Execution) -> Budget:
    budget = Budget(x.client)
    budget.id, budget.key = BUDGET_ID, f"ff:budget:{budget.tag}:{BUDGET_ID}"
    return budget


def quota_of(x: Execution) -> Quota:
    quota = Quota(x.client)
    quota.id, quota.key = QUOTA_ID, f"ff:quota:{quota.tag}:{QUOTA_ID}"
    return quota


def with_budget(x: Execution) -> None:
    budget_of(x).create(("tokens", 10, 0))


def with_broken_budget(x: Execution) -> None:
    with_budget(x)
    x.client.hset(f"{budget_of(x).key}:limits", "hard:tokens", "many")


def with_quota(x: Execution) -> None:
    quota_of(x).create()


def with_broken_quota(x: Execution) -> None:
    with_quota(x)
    x.client.hset(quota_of(x).key, "active_concurrency_cap", "some")


def on_budget(function: str, *args: object, suffix: str = "", fillers: int = 0, first: int = 0) -> Step:
    """The function with the budget's key, after `first` and before `fillers` positions it derives itself."""

    def call(x: Execution) -> Reply:
        budget = budget_of(x)
        other = f"ff:noop:{budget.tag}"
        return x.fcall(function, [*[other] * first, budget.key + suffix, *[other] * fillers], *args)

    return call


def on_quota(function: str, *args: object) -> Step:
    return lambda x: x.fcall(function, [quota_of(x).key], *args)


def of_budget(name: str, good: Step, bad: Step) -> list[Scenario]:
    """What every function on a budget refuses."""
    return [
        (name, "budget_not_found", nothing, good),
        (name, "corruption", with_broken_budget, good),
        (name, "invalid_input", with_budget, bad),
    ]


def of_quota(name: str, good: Step, bad: Step) -> list[Scenario]:
    return [
        (name, "quota_policy_not_found", nothing, good),
        (name, "corruption", with_broken_quota, good),
        (name, "invalid_input", with_quota, bad),
    ]


def on_partition(function: str, *args: object) -> Step:
    return lambda x: x.fcall(function, [f"ff:part:{x.tag}:events"], *args)


def on_key(function: str, key: str, *args: object) -> Step:
    return lambda x: x.fcall(function, [key], *args)


def note_reservation(x: Execution) -> Reply:
    return x.fcall("ff_note_reservation", [x.core], x.id, x.lease, 1, x.attempt, BUDGET_ID)


def after(arrange: Step, *steps: Step) -> Step:
    def run(x: Execution) -> None:
        for step in (arrange, *steps):
            step(x)

    return run


LIMIT_SCENARIOS: list[Scenario] = [
    ("create_budget", "invalid_input", nothing,
     on_budget("ff_create_budget", BUDGET_ID, "", "", "", "", "", 0, 0, 65, fillers=4)),
    *of_budget("report_usage_and_check", on_budget("ff_report_usage_and_check", 1, "tokens", 1, 0, first=2),
               on_budget("ff_report_usage_and_check", 1, "to kens", 1, 0, first=2)),
    *of_budget("record_spend", on_budget("ff_record_spend", 1, "tokens", 1, 0, first=2, fillers=2),
               on_budget("ff_record_spend", 65, first=2, fillers=2)),
    *of_budget("release_budget", on_budget("ff_release_budget", BUDGET_ID, "x1", suffix=":usage", fillers=2),
               on_budget("ff_release_budget", QUOTA_ID, "x1", suffix=":usage", fillers=2)),
    *of_budget("reset_budget", on_budget("ff_reset_budget", BUDGET_ID, 0, fillers=2),
               on_budget("ff_reset_budget", QUOTA_ID, 0, fillers=2)),
    *of_budget("check_budget", on_budget("ff_check_budget"), on_budget("ff_check_budget", suffix=":usage")),
    *of_budget("describe_budget", on_budget("ff_describe_budget"), on_budget("ff_describe_budget", suffix=":usage")),
    *of_budget("set_budget_limits", on_budget("ff_set_budget_limits", BUDGET_ID, 0, 1, "tokens", 5, 0),
               on_budget("ff_set_budget_limits", BUDGET_ID, 0, 2, "tokens", "tokens", 5, 5, 0, 0)),
    *of_budget("reserve_budget", on_budget("ff_reserve_budget", "x1", "r1", 1, 1, "tokens", 5),
               on_budget("ff_reserve_budget", "x1", "r1", 1, 1, "tokens", -5)),
    *of_budget("settle_reservation", on_budget("ff_settle_reservation", "x1", "r1", 1, "tokens", 5),
               on_budget("ff_settle_reservation", "x1", "r1", 65)),
    *of_budget("settle_stretch", on_budget("ff_settle_stretch", "x1", 1, 5, 1),
               on_budget("ff_settle_stretch", "x1", 1, 5, 1, suffix=":usage")),
    ("reserve_budget", "stale_lease", after(with_budget, on_budget("ff_settle_stretch", "x1", 1, 0, 0, "1")),
     on_budget("ff_reserve_budget", "x1", "r1", 1, 1, "tokens", 5)),
    *of_budget("list_holders", on_budget("ff_list_holders", "", 10), on_budget("ff_list_holders", "", 101)),
    ("list_admitted", "invalid_input", with_quota, on_quota("ff_list_admitted", "", "x", 10)),
    ("find_unheld", "invalid_input", nothing, on_partition("ff_find_unheld", msgspec.msgpack.encode([["x1", -1, 0]]))),
    ("forget_parked", "invalid_input", nothing, on_partition("ff_forget_parked", 1001)),
    ("due_budgets", "invalid_input", with_budget, on_key("ff_due_budgets", "ff:idx:{b:7}:budget_resets", 1001)),
    ("budget_notices", "invalid_input", with_budget, on_key("ff_budget_notices", "ff:idx:{b:7}:other", 10)),
    ("list_limits", "invalid_input", with_budget, on_key("ff_list_limits", "ff:idx:{b:7}:budget_policies", "", 1002)),
    ("forget_waiting", "invalid_input", nothing, on_key("ff_forget_waiting", "ff:waiting:{b:7}", "{fp:7}", "1")),
    ("create_quota_policy", "invalid_input", nothing,
     lambda x: x.fcall("ff_create_quota_policy", [quota_of(x).key] * 5, BUDGET_ID, 60, 1, 1, 0)),
    ("create_quota_policy", "invalid_quota_spec", nothing, lambda x: quota_of(x).create(60, 1, 1, 0, "colour")),
    ("check_admission_and_record", "invalid_input", nothing, lambda x: quota_of(x).check("", 1)),
    ("release_admission", "invalid_input", nothing,
     lambda x: x.fcall("ff_release_admission", [f"{quota_of(x).key}:admitted:x1"] * 3, "x2")),
    *of_quota("admit_batch", on_quota("ff_admit_batch", EMPTY), on_quota("ff_admit_batch", "\xc1")),
    *of_quota("release_batch", on_quota("ff_release_batch", EMPTY),
              on_quota("ff_release_batch", msgspec.msgpack.encode([["x1", -1, 0]]))),
    *of_quota("quota_room", on_quota("ff_quota_room", ""),
              lambda x: x.fcall("ff_quota_room", [f"{quota_of(x).key}:waiting"], "")),
    *of_quota("configure_quota_policy", on_quota("ff_configure_quota_policy", QUOTA_ID, 60, 1, 1),
              on_quota("ff_configure_quota_policy", BUDGET_ID, 60, 1, 1)),
    *of_quota("describe_quota_policy", on_quota("ff_describe_quota_policy"),
              lambda x: x.fcall("ff_describe_quota_policy", [f"{quota_of(x).key}:waiting"])),
    ("return_offers", "invalid_input", nothing, on_partition("ff_return_offers", msgspec.msgpack.encode([["u"]]))),
    ("due_admissions", "invalid_input", nothing, on_partition("ff_due_admissions", 1001)),
    ("ack_handovers", "invalid_input", nothing, on_partition("ff_ack_handovers", "")),
    ("wake_waiting", "invalid_input", nothing, on_partition("ff_wake_waiting", "b:1", 1001, 0)),
    ("attach_limit", "invalid_input", nothing, on_key("ff_attach_limit", "ff:attach:{fp:7}", "lane:x", "rule", "1", 1)),
]  # fmt: skip


DEDUP = "ff:usagededup:{b:7}:once"
spend_once = on_budget("ff_record_spend", 1, "tokens", 1, 0, DEDUP, "x1", first=2, fillers=2)
report_once = on_budget("ff_report_usage_and_check", 1, "tokens", 1, 0, DEDUP, first=2)
report_too_much = on_budget("ff_report_usage_and_check", 1, "tokens", 11, 0, first=2)
reserve = on_budget("ff_reserve_budget", "x1", "r1", 1, 1, "tokens", 5)
settle = on_budget("ff_settle_reservation", "x1", "r1", 1, "tokens", 5)
settle_stretch = on_budget("ff_settle_stretch", "x1", 1, 5, 1)
release = on_budget("ff_release_budget", BUDGET_ID, "x1", suffix=":usage", fillers=2)


def admit(x: Execution) -> Reply:
    return quota_of(x).check("x1", 1, cap=1)


def admit_another(x: Execution) -> Reply:
    return quota_of(x).check("x2", 1, cap=1)


# What was done before, and a breach that is noted already, are answered without a write.
LIMIT_REPEATS: list[tuple[str, Step, Step]] = [
    ("create_budget", with_budget, lambda x: budget_of(x).create(("tokens", 10, 0))),
    ("report_usage_and_check", after(with_budget, report_once), report_once),
    ("report_usage_and_check", after(with_budget, report_too_much), report_too_much),
    ("record_spend", after(with_budget, spend_once), spend_once),
    ("release_budget", after(with_budget, spend_once, release), release),
    ("reserve_budget", after(with_budget, reserve), reserve),
    ("settle_reservation", after(with_budget, reserve, settle), settle),
    ("settle_stretch", after(with_budget, reserve, settle_stretch), settle_stretch),
    ("create_quota_policy", with_quota, lambda x: quota_of(x).create()),
    ("release_admission", after(with_quota, admit, lambda x: quota_of(x).release("x1")),
     lambda x: quota_of(x).release("x1")),
]  # fmt: skip

# These have no envelope: the status comes first.
ADMISSION_REPEATS: list[tuple[str, Step, Step]] = [
    ("ALREADY_ADMITTED", after(with_quota, admit), admit),
    ("CONCURRENCY_EXCEEDED", after(with_quota, admit), admit_another),
]
