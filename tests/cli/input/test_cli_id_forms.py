"""Every command takes both forms of an id, and prints the short one: `86-<uuid>`, without braces and colons."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from flowfabric.cli.app import app
from flowfabric.core.ids import ExecutionId
from tests.cli.harness import Cli, running

UNKNOWN = ExecutionId("{fp:1}:00000000-0000-4000-8000-000000000000")
LIMIT = "00000000-0000-4000-8000-000000000001"

# A call of every command that takes the id of an execution, with ID in its place.
CALLS = {
    "show": ("show", "ID"),
    "explain": ("explain", "ID"),
    "events": ("events", "ID"),
    "tail": ("tail", "ID"),
    "logs": ("logs", "ID"),
    "cancel": ("cancel", "ID"),
    "replay": ("replay", "ID"),
    "retry": ("retry", "ID"),
    "fork": ("fork", "ID"),
    "waitpoints": ("waitpoints", "ID"),
    "link": ("link", "ID"),
    "signal": ("signal", "ID", "go"),
    "resume": ("resume", "ID"),
    "budget create": ("budget", "create", "--limit", "tokens=1", "--id", LIMIT, "--execution", "ID"),
    "budget attach": ("budget", "attach", LIMIT, "--execution", "ID"),
    "budget detach": ("budget", "detach", LIMIT, "--execution", "ID"),
    "budget usage": ("budget", "usage", LIMIT, "ID"),
    "quota create": ("quota", "create", "--max-concurrent", "1", "--id", LIMIT, "--execution", "ID"),
    "quota attach": ("quota", "attach", LIMIT, "--execution", "ID"),
    "quota detach": ("quota", "detach", LIMIT, "--execution", "ID"),
}


def _takers(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The commands that have a parameter for executions."""
    for name, each in getattr(command, "commands", {}).items():
        yield from _takers(each, (*path, name))
    if any(each.name in ("execution_id", "execution", "ids", "target") for each in command.params):
        yield " ".join(path)


def test_every_command_that_takes_an_execution_is_called_here() -> None:
    assert set(_takers(typer.main.get_command(app))) == set(CALLS)


@pytest.mark.parametrize("command", CALLS)
def test_a_command_takes_both_forms(cli: Cli, command: str) -> None:
    for form in (UNKNOWN.short, str(UNKNOWN)):
        words = [form if word == "ID" else word for word in CALLS[command]]
        ran = [cli(*words, *more, code=_code(command)) for more in ((), ("--json",))]
        said = "".join(each.stdout + each.stderr for each in ran)
        assert "{fp:" not in said
        assert " " in command or UNKNOWN.short in said  # limits name the limit


def _code(command: str) -> int:
    """Limits may be made for an execution that does not exist yet; everything else needs one."""
    return 0 if command in ("budget create", "quota create") else 3


@pytest.mark.parametrize("kind", [("budget", "--limit", "tokens=1"), ("quota", "--max-concurrent", "1")])
def test_a_limit_of_an_execution_is_the_same_in_both_forms(cli: Cli, kind: tuple[str, ...]) -> None:
    noun, *options = kind
    one = cli.submit("greet")
    made = cli(noun, "create", *options, "--execution", one).stdout.strip()
    assert f"execution {one}" in cli(noun, "show", made).stdout
    assert cli(noun, "show", made, "--json").json["scope_id"] == one
    assert cli(noun, "detach", made, "--execution", str(ExecutionId(one)), "--json").json["scope_id"] == one


def test_what_a_command_prints_can_be_given_to_the_next_one(cli: Cli, project: Path) -> None:
    submitted = cli.submit("greet", '"ada"')
    assert re.fullmatch(r"\d+-[0-9a-f-]{36}", submitted)
    assert submitted in cli("ls").stdout
    assert cli("submit", "greet", "--json").json["execution_id"] != submitted
    assert submitted in {each["execution_id"] for each in cli("ls", "--json").json["executions"]}
    with running("worker", "jobs", "--url", cli.url, "--log-level", "info", directory=project) as worker:
        failed = cli.submit("boom")
        cli("submit", "greet", '"bob"', "--wait")
        while cli("show", failed, "--json").json["public_state"] != "failed":
            pass
        worker.end()
        worker.rest()
    assert any(failed in line for line in worker.lines)  # in the log of the worker
    told = [cli(*words, submitted).stdout for words in (("show",), ("explain",), ("events",), ("replay",))]
    told += worker.lines
    assert not [line for line in told if "{fp:" in line]
    assert failed in cli("retry", failed).stdout
