"""The tutorial's page and its files are the same, in the order that a newcomer needs, and short."""

from __future__ import annotations

from scripts import stranger

TUTORIAL = stranger.ROOT / "docs/tutorial"
ORDER = ["tasks.py", "submit.py", "retry.py", "steps.py", "approval.py", "stream.py", "flow.py", "test_tasks.py"]
PROGRAMS = [
    action
    for action in stranger.actions((stranger.ROOT / "docs/tutorial.md").read_text())
    if isinstance(action, stranger.Program)
]


def test_the_page_shows_every_file_as_it_is() -> None:
    assert {each.name: each.text for each in PROGRAMS} == {
        path.name: path.read_text() for path in TUTORIAL.glob("*.py")
    }


def test_the_programs_come_in_the_order_of_need() -> None:
    assert [each.name for each in PROGRAMS] == ORDER


def test_readme_and_tutorial_are_read_in_a_quarter_of_an_hour() -> None:
    assert stranger.minutes() < stranger.MINUTES
