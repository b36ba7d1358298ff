"""The checks of `make lint` that are our own find what they are for."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from scripts import check_copies, check_sizes, check_words

WORDS = check_words.pattern(["let go", "let go of", "time-out"])


def test_a_word_is_found_with_its_line_in_any_case_and_across_a_line_break() -> None:
    text = "one\nA Time-out here\n-- the lease is let\n-- go of by it\n"
    assert list(check_words.hits(text, WORDS)) == [(2, "time-out"), (3, "let go of")]


def test_a_part_of_another_word_is_no_hit() -> None:
    assert list(check_words.hits("time_out, real-time-outs, outlet goes", WORDS)) == []


def test_the_list_names_a_better_wording_for_each_phrase() -> None:
    words = tomllib.loads(check_words.LIST.read_text())["words"]
    assert [phrase for phrase, better in words.items() if not better or phrase != phrase.lower()] == []


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(check_copies, "ROOT", tmp_path)
    monkeypatch.setattr(check_sizes, "ROOT", tmp_path)
    return tmp_path


def lines(*texts: str) -> str:
    return "".join(f"{text}\n" for text in texts)


def test_twelve_equal_lines_in_two_files_are_found_once(root: Path) -> None:
    block = [f"line {number}" for number in range(14)]
    (root / "src").mkdir()
    (root / "src" / "one.py").write_text(lines("first", *block, "end"))
    (root / "src" / "two.py").write_text(lines(*(f"    {text}\n" for text in block)))
    assert list(check_copies.copies(check_copies.files())) == ["src/one.py:2 and src/two.py:1 share 14 equal lines"]


def test_eleven_equal_lines_are_no_copy(root: Path) -> None:
    (root / "tests").mkdir()
    for name in ("one", "two"):
        (root / "tests" / f"{name}.py").write_text(lines(name, *(f"line {number}" for number in range(11)), name))
    assert list(check_copies.copies(check_copies.files())) == []


def test_a_folder_with_too_many_files_is_named(root: Path) -> None:
    (root / "src").mkdir()
    for number in range(check_sizes.FOLDER + 1):
        (root / "src" / f"{number}.lua").touch()
    assert [problem.split(";")[0] for problem in check_sizes.crowded_folders()] == ["src: 21 files, at most 20"]
