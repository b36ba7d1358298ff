"""Pages of the docs: links lead somewhere, generated pages are current, lines are short."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import generate_docs

ROOT = Path(__file__).resolve().parents[3]
OF_THE_PROJECT = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
PAGES = sorted([*OF_THE_PROJECT, *(ROOT / "docs").rglob("*.md")])
COLUMNS = 100
# Links and table rows cannot be wrapped; code has the width of code.
UNBREAKABLE = re.compile(r"^\s*(?:\||!?\[[^]]*\]\([^)]*\)\S*$)")


def _prose(page: Path) -> Iterator[str]:
    text = re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return (line for line in text.splitlines() if not UNBREAKABLE.match(line))


def _anchor(heading: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.lower().replace("`", "")).strip().replace(" ", "-")


def _anchors(page: Path) -> set[str]:
    text = page.read_text()
    named = re.findall(r'<a id="([^"]+)"', text)
    return {*map(_anchor, re.findall(r"^#+ (.*)$", text, re.MULTILINE)), *named}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        if target.startswith("http"):
            continue
        found = page.parent / target if target else page
        assert found.exists(), target
        if anchor and found.suffix == ".md":
            assert anchor in _anchors(found), f"{target}#{anchor}"


@pytest.mark.parametrize("name", generate_docs.PAGES)
def test_generated_pages_are_what_the_code_prints(name: str) -> None:
    assert (generate_docs.DOCS / name).read_text() == generate_docs.PAGES[name]()


# Pages that people write; those that the code prints have the width of its texts.
PRINTED = {generate_docs.DOCS / name for name in generate_docs.PAGES}
WRITTEN = [page for page in PAGES if page not in PRINTED]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_lines_fit_a_terminal(page: Path) -> None:
    assert [line for line in _prose(page) if len(line) > COLUMNS] == []


def test_the_readme_is_short_and_has_one_picture() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 120
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert len(re.findall(r"!\[", text)) == 1


def test_the_readme_shows_the_example_as_it_is() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    _docstring, _, example = (ROOT / "examples/quickstart.py").read_text().partition("\n\n")
    assert shown == example


def test_the_readme_leads_to_every_page() -> None:
    reached, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page.suffix == ".md" and page not in reached:
            reached.add(page)
            left += [(page.parent / link).resolve() for link in re.findall(r"\]\(([^)#:]+)", page.read_text())]
    assert [page for page in PAGES if page not in reached and page.parent.name != "adr"] == []
