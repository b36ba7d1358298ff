"""Looking for what a bare machine lacks: it is found, or it is said to be missing, and nobody waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import apt, bounded, environment
from scripts.ci import in_ci
from tests.browsers import opened_browser
from tests.servers import eventually, is_alive

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no program at all; who puts one into the folder has it on the path."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "browsers"))
    monkeypatch.delenv("CI", raising=False)
    return tmp_path


def put(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_a_command_that_hangs_is_stopped_with_what_it_started(tmp_path: Path) -> None:
    child = tmp_path / "pid"
    assert not bounded.run(["sh", "-c", f"sleep 600 & echo $! > {child}; wait"], 1)
    pid = int(child.read_text())
    eventually(lambda: not is_alive(pid), "the child of the command is stopped")


def test_a_command_answers_by_its_exit_code() -> None:
    assert bounded.run(["true"], 10)
    assert not bounded.run(["false"], 10)
    assert not bounded.run(["no-such-command"], 10)


def test_without_apt_get_nothing_is_installed(bare: Path) -> None:
    assert not apt.install("chromium")


def test_whoever_may_not_install_is_not_asked_for_a_password(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    put(bare, "apt-get", f"touch {bare}/called")
    put(bare, "sudo", "exit 1")
    assert not apt.install("chromium")
    assert not (bare / "called").exists()


@pytest.mark.parametrize(("user", "by"), [(0, ""), (1000, "sudo -n env ")])
def test_apt_get_downloads_before_it_installs(bare: Path, monkeypatch: pytest.MonkeyPatch, user: int, by: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    log = bare / "log"
    put(bare, "env", f'echo "$*" >> {log}')  # which would call apt-get
    put(bare, "sudo", f'[ "$2" = true ] || echo "sudo $*" >> {log}')
    put(bare, "apt-get", "")
    assert apt.install("chromium")
    lines = log.read_text().splitlines()
    assert [line.partition("Lock::Timeout=60 ")[2] for line in lines] == [
        "update",
        "--download-only install --yes --no-install-recommends chromium",
        "install --yes --no-install-recommends chromium",
    ]
    assert all(line.startswith(f"{by}DEBIAN_FRONTEND=noninteractive timeout ") for line in lines)


async def test_a_browser_that_does_not_start_is_passed_over(bare: Path) -> None:
    put(bare, "chromium", "exit 127")
    async with opened_browser() as browser:
        assert browser is None


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("false", 0), ("true", 1)])
def test_lua_that_cannot_be_checked_is_told_and_fails_in_ci_alone(
    bare: Path, monkeypatch: pytest.MonkeyPatch, ci: str, code: int
) -> None:
    monkeypatch.setenv("CI", ci)
    command = [sys.executable, "-m", "scripts.check_lua"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.stdout == "Lua: not run: no luacheck (apt-get install lua-check)\n"
    assert ended.returncode == code


@pytest.mark.parametrize(("value", "answer"), [("true", True), ("1", True), ("False", False), ("0", False)])
def test_ci_is_told_by_its_variable(monkeypatch: pytest.MonkeyPatch, value: str, answer: bool) -> None:
    monkeypatch.setenv("CI", value)
    assert in_ci() is answer


def test_an_old_python_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    assert "is Python 3.9, and 3.11 is the oldest that will do: make PYTHON=" in str(environment.problem())


def test_a_python_without_ensurepip_is_told_its_package(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    version = ".".join(str(part) for part in sys.version_info[:2])
    assert str(environment.problem()).endswith(f"apt-get install python{version}-venv")
