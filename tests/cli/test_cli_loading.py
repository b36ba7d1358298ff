"""Which worker `module` and `module:name` mean."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from flowfabric.cli.loading import load_worker
from flowfabric.errors import InvalidInput

_NUMBERS = count()
ONE = "from flowfabric.worker import Worker\nworker = Worker(worker_id='one')\nalias = worker\n"
TWO = ONE + "other = Worker(worker_id='two')\n"


class Modules:
    """Writes modules whose names no other test has, because Python remembers them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, source: str) -> str:
        name = f"loaded_{next(_NUMBERS)}"
        (self._directory / f"{name}.py").write_text(source)
        return name


@pytest.fixture
def modules(tmp_path: Path) -> Iterator[Modules]:
    """Modules of the directory that commands run in."""
    before = list(sys.path)
    yield Modules(tmp_path)
    sys.path[:] = before


def refusal(target: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        load_worker(target)
    assert caught.value.field == "MODULE"
    return caught.value.message


def test_the_only_worker_needs_no_name(modules: Modules) -> None:
    assert load_worker(modules.write(ONE)).settings.worker_id == "one"


def test_a_worker_is_chosen_by_name(modules: Modules) -> None:
    assert load_worker(f"{modules.write(TWO)}:other").settings.worker_id == "two"


def test_several_workers_must_be_chosen_from(modules: Modules) -> None:
    name = modules.write(TWO)
    assert f"{name}:alias, {name}:other, {name}:worker" in refusal(name)


def test_a_name_that_is_no_worker_is_refused_with_those_that_are(modules: Modules) -> None:
    name = modules.write(ONE)
    assert f"nothing is not a Worker in {name}" in refusal(f"{name}:nothing")
    assert f"{name}:worker" in refusal(f"{name}:nothing")


def test_a_module_without_a_worker_is_told_how_to_have_one(modules: Modules) -> None:
    assert "worker = Worker(...)" in refusal(modules.write("x = 1\n"))


def test_a_missing_module_is_told_from_a_missing_import_in_it(modules: Modules) -> None:
    assert "no module named 'not_there'" in refusal("not_there")
    assert "No module named 'nor_this'" in refusal(modules.write("import nor_this\n"))


def test_what_the_import_raises_is_told_with_its_place(modules: Modules) -> None:
    name = modules.write("x = 1\nraise ValueError('on purpose')\n")
    assert f"ValueError: on purpose ({Path.cwd() / name}.py:2)" in refusal(name)
    broken = modules.write("x = = 1\n")
    assert f"invalid syntax ({Path.cwd() / broken}.py:1)" in refusal(broken)


@pytest.mark.parametrize(("target", "hint"), [("jobs.py", "jobs"), ("./app/jobs.py", "app.jobs"), ("a/b", "a.b")])
def test_a_file_is_answered_with_the_name_of_its_module(target: str, hint: str) -> None:
    assert f"not a file: {hint} " in refusal(target)


def test_what_cannot_be_a_module_is_refused() -> None:
    assert "must look like" in refusal("my-jobs")
