"""The tutorial and the README run as printed, and print what they show."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from scripts import stranger

TUTORIAL = stranger.ROOT / "docs/tutorial"
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # noqa: TID251
ENVIRONMENT.pop("FLOWFABRIC_URL", None)


def _installed(page: str) -> str:
    """Without the commands that install what runs this test."""
    return "\n".join(line for line in page.split("\n") if not line.startswith("$ pip install"))


@pytest.mark.parametrize("name", stranger.PAGES)
def test_every_block_runs_as_printed(name: str, tmp_path: Path) -> None:
    page = _installed((stranger.ROOT / name).read_text())
    followed = list(stranger.Reader(tmp_path, ENVIRONMENT).follow(page))
    assert [(command.line, problem) for command, problem in followed if problem is not None] == []
    assert any(command.output for command, _ in followed)


def test_output_that_the_page_does_not_show_is_noticed(tmp_path: Path) -> None:
    page = "Save as `one.py`:\n```python\nprint('two')\n```\n```\n$ python one.py\none\n```\n"
    ((command, problem),) = stranger.Reader(tmp_path, ENVIRONMENT).follow(page)
    assert command.line == "python one.py"
    assert problem == "exit 0\ntwo\n"
