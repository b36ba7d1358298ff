"""Code in the docs runs: each page from top to bottom, in one namespace."""

from __future__ import annotations

import ast
import asyncio
import re
import sys
import types
from pathlib import Path

import pytest

from tests.tracing import unconfigured

ROOT = Path(__file__).resolve().parents[2]
AS_PRINTED = {"tutorial.md"}  # its programs are files of their own, see test_tutorial.py
PAGES = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if "```python" in page.read_text() and page.name not in AS_PRINTED
]
_TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    code = compile("\n".join(blocks), str(page), "exec", flags=_TOP_LEVEL_AWAIT, dont_inherit=True)
    module = types.ModuleType("docs")  # dataclasses look their module up
    monkeypatch.setitem(sys.modules, "docs", module)
    unconfigured(monkeypatch)
    result = eval(code, module.__dict__)
    if result is not None:
        asyncio.run(result)
