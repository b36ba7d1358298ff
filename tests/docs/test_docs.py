"""Code in the docs runs: each page from top to bottom, in one namespace."""

from __future__ import annotations

import ast
import asyncio
import re
import sys
import types
from pathlib import Path

import pytest

from scripts import generate_docs
from tests.tracing import unconfigured
from tests.unit.looping import for_each

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
WITH_CODE = [page for page in PAGES if "```python" in page.read_text()]
# Fragments that explain one call; the tutorial runs the same call in full.
FRAGMENTS = {"architecture.md"}
_TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


@pytest.mark.parametrize("page", [page for page in WITH_CODE if page.name not in FRAGMENTS], ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    code = compile("\n".join(blocks), str(page), "exec", flags=_TOP_LEVEL_AWAIT, dont_inherit=True)
    module = types.ModuleType("docs")  # dataclasses look their module up
    monkeypatch.setitem(sys.modules, "docs", module)
    unconfigured(monkeypatch)
    result = eval(code, module.__dict__)
    if result is not None:
        asyncio.run(result)


@for_each(PAGES)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("name", generate_docs.PAGES)
def test_generated_pages_are_what_the_code_prints(name: str) -> None:
    assert (generate_docs.DOCS / name).read_text() == generate_docs.PAGES[name]()


def test_the_docs_name_only_tests_that_exist() -> None:
    text = (ROOT / "docs/explanation/guarantees.md").read_text()
    existing = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert set(re.findall(r"`(test_\w+\.py)`", text)) <= existing
