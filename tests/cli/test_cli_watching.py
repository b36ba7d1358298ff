"""Which files belong to a module, and noticing that they changed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowfabric.cli.dev.watching import Root, Watcher, directory_root, roots_of
from flowfabric.errors import InvalidInput


@pytest.fixture(autouse=True)
def _same_path() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before


def test_a_package_is_watched_whole_and_a_file_with_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "watched_package" / "deep").mkdir(parents=True)
    (tmp_path / "watched_package" / "__init__.py").touch()
    (tmp_path / "watched_file.py").touch()
    assert roots_of("watched_package.deep.jobs:worker") == [Root(tmp_path / "watched_package", deep=True)]
    assert roots_of("watched_file") == [Root(tmp_path, deep=False)]


def test_what_is_not_there_cannot_be_watched() -> None:
    with pytest.raises(InvalidInput, match="no module named"):
        roots_of("not_there.at_all")
    with pytest.raises(InvalidInput, match="must be a directory"):
        directory_root("--watch", "not_there")


async def test_changed_new_and_removed_files_are_noticed_together(tmp_path: Path) -> None:
    changed, removed, new = (tmp_path / name for name in ("a.py", "b.py", "c.py"))
    changed.touch()
    removed.touch()
    watcher = Watcher([Root(tmp_path, deep=True)])
    changed.write_text("x = 1\n")
    removed.unlink()
    new.touch()
    assert await watcher.changed() == [str(path) for path in (changed, removed, new)]


async def test_a_change_of_the_same_size_is_noticed_by_its_time(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    watcher = Watcher([Root(tmp_path, deep=False)])
    path.write_text("x = 2\n")
    os.utime(path, (1, 1))
    assert await watcher.changed() == [str(path)]


async def test_other_files_hidden_directories_and_what_lies_deeper_are_left_alone(tmp_path: Path) -> None:
    for directory in (".venv", "__pycache__", "below"):
        (tmp_path / directory).mkdir()
    watcher = Watcher([Root(tmp_path, deep=False)])
    for name in ("notes.txt", ".venv/a.py", "__pycache__/b.py", "below/c.py"):
        (tmp_path / name).touch()
    (tmp_path / "seen.py").touch()
    assert await watcher.changed() == [str(tmp_path / "seen.py")]


async def test_a_change_between_two_questions_is_not_lost(tmp_path: Path) -> None:
    watcher = Watcher([Root(tmp_path, deep=True)])
    waiting = asyncio.create_task(watcher.changed())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    (tmp_path / "a.py").touch()
    assert await watcher.changed() == [str(tmp_path / "a.py")]
