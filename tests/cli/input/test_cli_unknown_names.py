"""A lane, budget or quota that nobody uses is most likely a typo: the command does what was asked for, and warns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.harness import Cli, running

UNKNOWN = "00000000-0000-4000-8000-000000000000"
_WARNING = "flowfabric: warning: lane 'reprots' has no executions and no worker; did you mean 'reports'?\n"
_CHANGES = [("pause",), ("resume",), ("drain",), ("limit", "--max", "3")]
_STATES = {"pause": "paused", "resume": "active", "drain": "draining", "limit": "active"}


@pytest.mark.parametrize("words", _CHANGES, ids=lambda words: words[0])
def test_a_change_of_a_misspelt_lane_is_made_and_warns(cli: Cli, words: tuple[str, ...]) -> None:
    cli.submit("greet", "--lane", "reports")
    ran = cli("lanes", words[0], "reprots", *words[1:], "--json")
    assert ran.json["state"] == _STATES[words[0]]
    assert json.loads(ran.stderr)["warning"]["details"] == {"lane_id": "reprots"}
    assert cli("lanes", words[0], "reprots", *words[1:]).stderr == _WARNING


@pytest.mark.parametrize("words", _CHANGES, ids=lambda words: words[0])
def test_a_lane_with_executions_gets_no_warning(cli: Cli, words: tuple[str, ...]) -> None:
    cli.submit("greet", "--lane", "reports")
    assert cli("lanes", words[0], "reports", *words[1:]).stderr == ""


def test_a_lane_with_only_a_worker_gets_no_warning(cli: Cli, project: Path) -> None:
    with running("worker", "jobs", "--url", cli.url, directory=project) as worker:
        worker.wait_for("worker")
        while not cli("workers", "--json").json["workers"]:
            pass
        assert cli("lanes", "pause", "default").stderr == ""


def test_without_a_similar_lane_the_lanes_are_listed(cli: Cli) -> None:
    assert "no lane has any yet" in cli("lanes", "pause", "mail").stderr
    cli.submit("greet", "--lane", "reports")
    assert "lanes that have: reports\n" in cli("lanes", "pause", "mail").stderr


@pytest.mark.parametrize(
    "words",
    [
        ("ls",),
        ("suspended",),
        ("events",),
        ("trim", "--keep-last", "1"),
        ("budget", "create", "--limit", "tokens=1"),
        ("quota", "create", "--max-concurrent", "1"),
    ],
    ids=" ".join,
)
def test_other_commands_warn_of_a_misspelt_lane(cli: Cli, words: tuple[str, ...]) -> None:
    cli.submit("greet", "--lane", "reports")
    assert cli(*words, "--lane", "reprots").stderr == _WARNING
    assert cli(*words, "--lane", "reports").stderr == ""


@pytest.mark.parametrize("kind", [("budget", "--limit", "tokens=1"), ("quota", "--max-concurrent", "1")])
def test_attaching_to_a_misspelt_lane_warns(cli: Cli, kind: tuple[str, str, str]) -> None:
    cli.submit("greet", "--lane", "reports")
    made = cli(kind[0], "create", *kind[1:]).stdout.strip()
    assert cli(kind[0], "attach", made, "--lane", "reprots").stderr == _WARNING
    assert cli(kind[0], "detach", made, "--lane", "reprots").stderr == _WARNING


@pytest.mark.parametrize(
    "words",
    [
        ("budget", "show", UNKNOWN),
        ("budget", "reset", UNKNOWN),
        ("budget", "limit", UNKNOWN, "--limit", "tokens=1"),
        ("budget", "attach", UNKNOWN, "--lane", "default"),
        ("budget", "detach", UNKNOWN, "--lane", "default"),
        ("quota", "show", UNKNOWN),
        ("quota", "attach", UNKNOWN, "--lane", "default"),
        ("quota", "detach", UNKNOWN, "--lane", "default"),
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_a_limit_that_does_not_exist_is_refused(cli: Cli, words: tuple[str, ...]) -> None:
    ran = cli(*words, code=3)
    assert UNKNOWN in ran.stderr


@pytest.mark.parametrize(("option", "noun"), [("--budget", "budget"), ("--quota", "quota policy")])
def test_a_submission_that_names_no_limit_that_exists_is_made_and_warns(cli: Cli, option: str, noun: str) -> None:
    ran = cli("submit", "greet", option, UNKNOWN)
    assert f"flowfabric: warning: {noun} '{UNKNOWN}' does not exist" in ran.stderr
    assert cli("show", ran.stdout.strip(), "--json").json["public_state"] == "waiting"


def test_a_submission_that_names_existing_limits_gets_no_warning(cli: Cli) -> None:
    budget = cli("budget", "create", "--limit", "tokens=1").stdout.strip()
    quota = cli("quota", "create", "--max-concurrent", "1").stdout.strip()
    assert cli("submit", "greet", "--budget", budget, "--quota", quota).stderr == ""
