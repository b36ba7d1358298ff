"""Many executions emit at once, each with a reader: no frame is lost, doubled or out of order."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.figures import percentile
from flowfabric import Engine, Fabric, FlowFabricError, Handle
from tests.servers import start_standalone
from tests.soaking import examples, tell
from tests.stream_load_worker import count_aloud

EXECUTIONS = examples(20, soak=200)
PER_SECOND = examples(50, soak=200)
SECONDS = examples(2, soak=10)
FRAMES = PER_SECOND * SECONDS
WITHIN_S = 60 + 6 * SECONDS
ROOT = Path(__file__).resolve().parents[2]


async def test_a_load_of_frames_arrives_whole_and_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    with start_standalone() as server, emitting(server.url):
        async with Fabric.connect(server.url) as fabric, Engine(fabric.backend), asyncio.timeout(WITHIN_S):
            outcomes = await fabric.submit_many(count_aloud, [(FRAMES, PER_SECOND)] * EXECUTIONS)
            handles = [each for each in outcomes if not isinstance(each, FlowFabricError)]
            began = time.monotonic()
            found = await asyncio.gather(*map(read, handles))
            seconds = time.monotonic() - began
            assert [await handle for handle in handles] == [FRAMES] * EXECUTIONS
    expected = list(range(FRAMES))
    assert all(numbers == expected for numbers, _ in found)
    delays = [delay for _, delays in found for delay in delays]
    tell(
        capsys,
        f"{EXECUTIONS} executions emitted {PER_SECOND} frames/s for {SECONDS} s, read in {seconds:.1f} s; emit to "
        f"reader p50 {percentile(delays, 0.5):.1f} ms, p99 {percentile(delays, 0.99):.1f} ms",
    )


async def read(handle: Handle[int]) -> tuple[list[int], list[float]]:
    """The numbers of the frames, and how many milliseconds each was on its way."""
    numbers, delays = [], []
    async for item in handle.stream():
        number, emitted_ns = item.text.split()
        numbers.append(int(number))
        delays.append((time.time_ns() - int(emitted_ns)) / 1e6)
    return numbers, delays


@contextmanager
def emitting(url: str) -> Iterator[None]:
    """A worker in a process of its own: readers and writers each have a processor."""
    command = [sys.executable, "-m", "tests.stream_load_worker", url, str(EXECUTIONS)]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)
