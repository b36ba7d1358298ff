"""The page about steps in Lua names every field of the tables that steps share."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.valkey.lua.sources import FUNCTIONS, MODULES, code_of

PAGE = Path("docs/explanation/lua-steps.md").read_text()
RECORD = Path("docs/reference/keys.md").read_text()
CODE = "\n".join(code_of(source) for source in (*FUNCTIONS.values(), *MODULES.values()))
FOREIGN = {"partition_id"}  # a field of records that another program wrote


def used(table: str) -> set[str]:
    return set(re.findall(rf"(?<![\w.]){table}\.([a-z]\w*)", CODE))


def listed(text: str) -> set[str]:
    return set(re.findall(r"`([a-z]\w*)`", text))


@pytest.mark.parametrize(("table", "elsewhere"), [("x", RECORD), ("collected", ""), ("run", "")])
def test_every_field_that_the_code_uses_is_on_the_page(table: str, elsewhere: str) -> None:
    assert used(table) - listed(PAGE) - listed(elsewhere) - FOREIGN == set()


@pytest.mark.parametrize("table", ["collected", "run"])
def test_every_field_on_the_page_is_used(table: str) -> None:
    rows = PAGE.partition(f"| field of {'a run' if table == 'run' else '`collected`'} |")[2].partition("\n\n")[0]
    names = {name for row in rows.splitlines() if row.startswith("| `") for name in listed(row.split("|")[1])}
    written = used(table) | set(re.findall(r"(\w+) = \{\}", MODULES["writes"])) | used("memo") | used("x.writes")
    assert len(names) > 10
    assert names - written == set()


def test_every_file_and_module_on_the_page_exists() -> None:
    for place in re.findall(r"`(lib/\w+/(\w+)\.lua)`", PAGE):
        assert place[1] in MODULES, place[0]
    called = {name for name in re.findall(r"`(\w+)\.\w+(?:\(\))?`", PAGE) if not name.startswith("test_")}
    assert called - MODULES.keys() - {"x"} == set()
