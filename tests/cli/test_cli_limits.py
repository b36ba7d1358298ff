"""budget and quota, on a real store."""

from __future__ import annotations

import json
from pathlib import Path

from flowfabric.client.fabric import Fabric
from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId
from tests.cli.harness import Cli, has_shape

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "cli.json").read_text())


def make(cli: Cli, *words: str) -> str:
    return cli("budget", "create", *words).stdout.strip()


def spend(cli: Cli, budget_id: str, tokens: int, execution_id: str | None = None) -> None:
    async def body(fabric: Fabric) -> c.ReportUsageResult:
        return await fabric.budgets.record_spend(budget_id, {"tokens": tokens}, execution_id=execution_id)

    cli.on_store(body)


def test_a_budget_is_made_and_shown_as_bars(cli: Cli) -> None:
    budget = make(cli, "--limit", "tokens=1000", "--soft", "tokens=800", "--limit", "calls=10", "--lane", "agents")
    spend(cli, budget, 500)
    shown = cli("budget", "show", budget).stdout.splitlines()
    assert ["scope", "lane", "agents"] in [line.split() for line in shown]
    assert "calls   [..............................]   0%  0 of 10" in shown
    assert "tokens  [###############...............]  50%  500 of 1000, soft 800" in shown
    told = cli("budget", "show", budget, "--json").json
    assert has_shape(told, GOLDEN["budget show"])
    assert (told["budget_id"], told["usage"]) == (budget, {"tokens": 500})


def test_a_breach_shows_until_the_limit_is_raised_or_the_budget_reset(cli: Cli) -> None:
    budget = make(cli, "--limit", "tokens=10", "--on-breach", "suspend", "--reset-every", "1d")
    spend(cli, budget, 30)
    assert "breached in tokens" in cli("budget", "show", budget).stdout
    assert "] 300%  30 of 10" in cli("budget", "show", budget).stdout
    raised = cli("budget", "limit", budget, "--limit", "tokens=60").stdout
    assert "30 of 60" in raised
    assert "breached" not in raised
    assert "0 of 60" in cli("budget", "reset", budget).stdout


def test_passed_limits_are_events(cli: Cli) -> None:
    budget = make(cli, "--limit", "tokens=10", "--soft", "tokens=5")
    spend(cli, budget, 6)
    (line,) = cli("events", "--event", "budget_soft_breached").stdout.splitlines()[1:]
    assert line.split()[2:] == [budget, "budget_soft_breached", "-", "tokens", "6", "of", "5"]


def test_usage_is_that_of_one_execution(cli: Cli) -> None:
    budget, x = make(cli, "--limit", "tokens=10"), cli.submit("greet", '"tides"')
    spend(cli, budget, 4, x)
    spend(cli, budget, 3)
    assert cli("budget", "usage", budget, x).stdout.split() == ["tokens", "4"]
    told = cli("budget", "usage", budget, x, "--json").json
    assert told == {"budget_id": budget, "execution_id": x, "usage": {"tokens": 4}}


def test_limits_are_attached_and_detached(cli: Cli) -> None:
    budget = make(cli, "--limit", "tokens=10")
    quota = cli("quota", "create", "--max-concurrent", "2", "--rate", "5", "--window", "1m").stdout.strip()
    own = cli("quota", "create", "--max-concurrent", "9", "--json").json["quota_policy_id"]
    x = cli.submit("greet", '"tides"', "--lane", "agents", "--quota", own)

    def limits() -> tuple[list[str], list[str]]:
        facts = cli.on_store(lambda fabric: fabric.explain(x))
        return list(facts.budget_ids), list(facts.quota_policy_ids)

    cli("budget", "attach", budget, "--lane", "agents")
    cli("quota", "attach", quota, "--namespace", "default")
    assert limits() == ([budget], [own, quota])
    cli("budget", "detach", budget, "--lane", "agents")
    cli("quota", "detach", quota, "--namespace", "default")
    assert limits() == ([], [own])
    cli("budget", "attach", budget, code=2)


def test_a_quota_is_shown_with_its_numbers(cli: Cli) -> None:
    quota = cli("quota", "create", "--max-concurrent", "2", "--rate", "5", "--window", "60s", "--lane", "x").stdout
    shown = cli("quota", "show", quota.strip()).stdout
    assert "0 of 2" in shown
    assert "0 of 5 within 60 s" in shown
    assert has_shape(cli("quota", "show", quota.strip(), "--json").json, GOLDEN["quota show"])


def test_both_are_listed(cli: Cli) -> None:
    budgets = sorted(make(cli, "--limit", "tokens=10") for _ in range(3))
    quota = cli("quota", "create", "--max-concurrent", "2").stdout.strip()
    assert [line.split()[0] for line in cli("budget", "ls").stdout.splitlines()[1:]] == budgets
    rest = cli("budget", "ls", "--after", budgets[0], "--limit", "1", "--json").json
    assert [each["budget_id"] for each in rest["budgets"]] == [budgets[1]]
    assert [line.split()[0] for line in cli("quota", "ls").stdout.splitlines()[1:]] == [quota]


def test_what_cannot_be_read_or_found_is_refused(cli: Cli) -> None:
    assert "--limit" in cli("budget", "create", "--limit", "tokens", code=2).stderr
    cli("budget", "create", "--limit", "tokens=5", "--on-breach", "explode", code=2)
    cli("budget", "create", "--limit", "tokens=5", "--lane", "a", "--namespace", "b", code=2)
    cli("budget", "show", BudgetId.new(), code=3)


def test_a_budget_is_known_by_its_name(cli: Cli) -> None:
    budget = make(cli, "--limit", "tokens=10", "--name", "team")
    assert ["name", "team"] in [line.split() for line in cli("budget", "show", "team").stdout.splitlines()]
    assert [budget, "team"] in [line.split()[:2] for line in cli("budget", "ls").stdout.splitlines()]
    assert cli("budget", "limit", "team", "--limit", "tokens=20", "--json").json["hard_limits"] == {"tokens": 20}
    assert cli("budget", "show", budget, "--json").json["name"] == "team"
    assert "no budget is named 'taem'" in cli("budget", "show", "taem", code=3).stderr
