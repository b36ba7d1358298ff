"""The worker in JavaScript does all that a worker does, knowing HTTP alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from flowfabric import ExecutionFailed, Fabric
from flowfabric.backends.http.operations import Scope
from flowfabric.backends.valkey.backend import ValkeyBackend
from tests.nodes import find_node
from tests.server.guarded import TokenFile, guarded
from tests.suites import not_run

WORKER = Path(__file__).resolve().parents[2] / "examples" / "javascript" / "worker.mjs"
WITHIN_S = 30


@pytest.fixture
def topology() -> str:
    return "embedded"


@asynccontextmanager
async def working(url: str, token: str, lane: str = "default") -> AsyncIterator[asyncio.subprocess.Process]:
    """The worker, once it says that it works."""
    node = find_node() or not_run("no node")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        node, str(WORKER), url, lane, env={"FLOWFABRIC_TOKEN": token}, stdout=pipe, stderr=pipe
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(WITHIN_S):
            line = await process.stdout.readline()
            assert b"works on" in line, (line, process.stderr and await process.stderr.read())
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_it_registers_streams_completes_fails_and_stops(backend: ValkeyBackend, tmp_path: Path) -> None:
    fabric, tokens = Fabric(backend), TokenFile(tmp_path / "tokens.json")
    token = tokens.add("javascript", [Scope.WORK])
    async with guarded(backend, tokens) as http, working(str(http.base_url), token) as process:
        shouted = await fabric.submit("shout", "rising tides")
        assert await shouted.result(timeout=WITHIN_S) == "RISING TIDES"
        assert [frame.text async for frame in shouted.stream()] == ["RISING", "TIDES"]
        assert (await backend.describe_execution(shouted.id)).progress_pct == 100  # type: ignore[union-attr]

        unknown = await fabric.submit("no such task", retry=0)
        with pytest.raises(ExecutionFailed, match="no task is called no such task"):
            await unknown.result(timeout=WITHIN_S)

        process.terminate()
        assert await asyncio.wait_for(process.wait(), WITHIN_S) == 0
        assert process.stderr is not None
        assert await process.stderr.read() == b""


async def test_work_that_comes_while_it_waits_is_started(backend: ValkeyBackend, tmp_path: Path) -> None:
    fabric, tokens = Fabric(backend), TokenFile(tmp_path / "tokens.json")
    token = tokens.add("javascript", [Scope.WORK])
    async with guarded(backend, tokens) as http, working(str(http.base_url), token):
        for word in ("a", "b", "c"):
            handle = await fabric.submit("shout", word)
            assert await handle.result(timeout=WITHIN_S) == word.upper()
