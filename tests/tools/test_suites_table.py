"""The table of suites, as a run of pytest prints it that finds less than it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.suites import LONGEST, TESTS

ROOT = Path(__file__).resolve().parents[2]
NEEDS_A_BROWSER = """
import pytest
from tests.suites import not_run

@pytest.fixture(scope="session")
def browser():
    not_run("no browser")

def test_one(browser): pass
def test_two(browser): pass
"""
PASSES = "def test_that_passes(): pass\n"
FAILS = "def test_that_fails(): assert False\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("dashboard", NEEDS_A_BROWSER), ("unit", PASSES)):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"test_{name}.py").write_text(text)
    return tmp_path


@pytest.fixture(autouse=True)
def _no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take seconds to load


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    plugins = ["-p", "tests.suites", "-p", "xdist", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *options, "."]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("options", [(), ("--numprocesses", "2", "--dist", "loadfile")], ids=["alone", "spread"])
def test_a_suite_that_could_not_run_is_told_last_and_the_rest_decides(folder: Path, options: tuple[str, ...]) -> None:
    ended = run(folder, *options)
    title, *rows, counts = ended.stdout.splitlines()[-4:]
    assert " suites " in title
    assert [row.split()[0] for row in rows] == ["dashboard", "unit"]
    assert rows[0].endswith(" s   not run: no browser (2)")
    assert rows[1].endswith(" s   1 passed")
    assert "1 passed, 2 skipped" in counts
    assert ended.returncode == 0


def test_a_failure_elsewhere_still_fails_the_run(folder: Path) -> None:
    (folder / "unit" / "test_unit.py").write_text(FAILS)
    ended = run(folder)
    assert "not run: no browser (2)" in ended.stdout
    assert "1 failed" in ended.stdout.splitlines()[-2]
    assert ended.returncode == 1


def test_in_ci_a_suite_that_could_not_run_is_a_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    ended = run(folder)
    assert "not run: no browser; in CI everything runs" in ended.stdout
    assert "2 error" in ended.stdout.splitlines()[-3]
    assert ended.returncode == 1


def test_the_files_that_start_first_exist() -> None:
    assert [file for file in LONGEST if not (TESTS / file).is_file()] == []
