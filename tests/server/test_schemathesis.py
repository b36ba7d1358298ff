"""The OpenAPI document and the server agree: schemathesis tries what is allowed, what is forbidden, and chains."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from flowfabric.backends.http.operations import Scope
from flowfabric.backends.valkey.backend import ValkeyBackend
from tests.server.guarded import TokenFile, guarded
from tests.soaking import SOAK, tell

CONFIG = Path(__file__).with_name("schemathesis.toml")
STREAMS = r"(/events|/stream|wakeups)$"  # they go on until their client leaves
# Hypothesis computes its tables of characters once and finds them there in later runs.
TABLES = {"HYPOTHESIS_STORAGE_DIRECTORY": str(Path(__file__).resolve().parents[2] / ".hypothesis")}
PAGES = r"/signals$"  # whoever comes with a link is a person, and gets a page
# Of each phase: which operations and how many examples of each, and for how long chains of calls are tried.
SOME = ["--include-path-regex", r"^/v1/(budgets|executions|flows|lanes|work/\w+)(/\{\w+\})?$"]
PHASES = {
    "coverage": SOME,
    "fuzzing": ["--max-examples", "2", *SOME],
    "stateful": ["--max-examples", "5", "--max-time", "5"],
}
IN_SOAK = {
    "coverage": ["--max-examples", "1"],
    "fuzzing": ["--max-examples", "50"],
    "stateful": ["--max-examples", "100", "--max-time", "600"],
}


@pytest.fixture
def topology() -> str:
    return "embedded"


@pytest.mark.parametrize("phase", PHASES)
async def test_schemathesis_finds_nothing(
    backend: ValkeyBackend, tmp_path: Path, phase: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    tokens.add("root", [Scope.ADMIN])
    async with guarded(backend, tokens, long_poll_ms=100) as http:
        told, status = await _run(
            *("--config-file", str(CONFIG), "run", f"{http.base_url}/openapi.json", "--checks", "all", "--no-color"),
            *("--header", f"Authorization: {tokens.headers('root')['Authorization']}", "--phases", phase),
            *("--exclude-path-regex", f"{STREAMS}|{PAGES}", "--suppress-health-check", "filter_too_much"),
            *(IN_SOAK if SOAK else PHASES)[phase],
            folder=tmp_path,
        )
    tell(capsys, told[-2_000:])
    assert status == 0, told


async def _run(*arguments: str, folder: Path) -> tuple[str, int | None]:
    """As a process of its own, which leaves this one's loop to the server."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", *arguments),
        cwd=folder,
        env={**os.environ, **TABLES},  # noqa: TID251 - the child gets ours and more
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await process.communicate()
    return told.decode(), process.returncode
