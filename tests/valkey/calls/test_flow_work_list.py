"""Flows whose steps are bounded to two edges: nearly everything goes over the work list."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.library.bundle import Bundle, build, sources
from flowfabric.config import Settings
from tests.conformance.models.test_flow_model import Player
from tests.soaking import examples
from tests.valkey.driver import Driver
from tests.valkey.probe import probe_of


def library_with_a_tiny_budget() -> Bundle:
    """Every step does two edges or members at most, so nearly everything goes over the work list."""
    lib = sources("lib", manual_clock=True)
    assert "M.BUDGET = 256" in lib["flow/tasks.lua"]
    lib["flow/tasks.lua"] = lib["flow/tasks.lua"].replace("M.BUDGET = 256", "M.BUDGET = 2")
    return build(lib, sources("fn"), manual_clock=True)


@pytest.mark.parametrize("seed", range(examples(4, soak=100)))
async def test_the_work_list_leads_to_the_same_end(tmp_path: Path, seed: int) -> None:
    """On a server of its own, whose library is not the one that other tests use."""
    backend = await ValkeyBackend.open(Settings(url=f"embedded://{tmp_path}"), library_with_a_tiny_budget())
    player = Player(Driver(await probe_of(backend)), seed, budget=2)
    await player.submit()
    for _ in range(100):
        await player.step()
        while await backend.continue_flow(player.graph.flow_id):
            pass
        await player.compare()
    await player.graph.check()
    await backend.close()
