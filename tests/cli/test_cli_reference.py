"""The page of the command line says what the commands say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flowfabric.cli import reference
from tests.cli.harness import run

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/cli.md").read_text()
SECTIONS = {
    part.partition("\n")[0]: part for part in re.split(r"^### ", PAGE.partition("## Commands")[2], flags=re.M)[1:]
}
LOOKING = {
    "ls",
    "show",
    "explain",
    "events",
    "workers",
    "lanes",
    "doctor",
    "suspended",
    "waitpoints",
    "secrets list",
} | {
    "flow ls",
    "flow show",
    "flow tree",
}
CHANGING = {
    "flow cancel",
    "flow replay",
    "flow retry",
    "submit",
    "cancel",
    "replay",
    "retry",
    "fork",
    "trim",
    "signal",
    "resume",
    "secrets rotate",
}
# Commands that need no store.
COMMON: dict[str, set[str]] = {"token": set(), "token new": {"--json"}}
GOING_ON = {"dev", "worker", "engine", "bench"}


def test_the_page_is_what_the_commands_say() -> None:
    assert reference.page() == PAGE, "run: python -m flowfabric.cli.reference > docs/reference/cli.md"


def test_every_command_has_a_section() -> None:
    assert SECTIONS.keys() >= LOOKING | CHANGING | GOING_ON


@pytest.mark.parametrize("command", SECTIONS)
def test_the_help_of_a_command_has_what_its_section_has(command: str) -> None:
    ran = run(*command.split(), "--help")
    assert ran.code == 0
    told = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", ran.stdout, flags=re.M)) - {"--help"}
    written = set(re.findall(r"^\| `(--[a-z-]+)", SECTIONS[command], flags=re.M))
    assert written | COMMON.get(command, {"--url", "--json"}) == told


def test_the_exit_codes_are_on_the_page() -> None:
    assert re.findall(r"^\| (\d+) \|", PAGE, flags=re.M) == ["0", "1", "2", "3", "4", "5", "6", "7", "130"]
