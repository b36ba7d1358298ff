"""Seeding a real store: many at once end with one secret in every partition, and a worker's start does it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from flowfabric.backends import open_backend
from flowfabric.backends.ports import EngineBackend
from flowfabric.backends.valkey.embedded.secret import EMBEDDED_KID
from flowfabric.client.fabric import Fabric
from flowfabric.client.secrets import ensure_secret
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.core.tokens import Kid, SecretHex
from flowfabric.worker import Worker
from tests.valkey.probe import open_clean

SECRET = "0f" * 32


async def kids(backend: EngineBackend) -> set[str | None]:
    """Those that sign, of all partitions."""
    count = backend.partitions.num_flow_partitions
    places = [Partition(PartitionFamily.FLOW, index) for index in range(count)]
    calls = (backend.list_waitpoint_hmac_kids(c.ListWaitpointHmacKidsArgs(partition=each)) for each in places)
    return {each.current_kid for each in await asyncio.gather(*calls)}


async def rotate(backend: EngineBackend, kid: str) -> None:
    args = c.RotateWaitpointHmacSecretAllArgs(new_kid=Kid(kid), new_secret_hex=SecretHex("ab" * 32), grace_ms=0)
    assert not (await backend.rotate_waitpoint_hmac_secret_all(args)).failed


async def test_processes_that_come_at_once_end_with_one_secret(tmp_path: Path) -> None:
    settings = Settings(url=f"embedded://{tmp_path}")
    backends = await asyncio.gather(*(open_backend(settings=settings) for _ in range(4)))
    try:
        await asyncio.gather(*(ensure_secret(each, settings) for each in backends))
        # The store says whether every partition has the secret it is shown.
        assert await ensure_secret(backends[0], settings) == c.SecretAlreadySeeded(kid=EMBEDDED_KID, same_secret=True)
        assert await kids(backends[0]) == {EMBEDDED_KID}
    finally:
        await asyncio.gather(*(each.close() for each in backends))


async def test_stores_of_our_own_keep_a_secret_and_others_do_not(embedded_url: str, cluster_url: str) -> None:
    for url, keeps_one in ((embedded_url, True), (cluster_url, False)):
        backend = await open_clean(url)
        try:
            assert (await backend.kept_secret() is not None) == keeps_one
            assert (await ensure_secret(backend) is not None) == keeps_one
        finally:
            await backend.close()


async def test_what_was_rotated_stays_rotated() -> None:
    settings = Settings(waitpoint_secret=SECRET)
    backend = await open_backend(settings=settings)
    try:
        assert await ensure_secret(backend, settings) == c.SecretSeeded(kid=Kid("k1"))
        await rotate(backend, "k2")
        assert isinstance(await ensure_secret(backend, settings), c.SecretAlreadySeeded)
        assert await kids(backend) == {"k2"}
    finally:
        await backend.close()


async def test_connecting_writes_no_secret_and_a_workers_start_does(tmp_path: Path) -> None:
    worker = Worker()

    @worker.task
    async def nothing() -> None:
        pass

    async with Fabric.connect(f"embedded://{tmp_path}") as fabric:
        assert await kids(fabric.backend) == {None}
        async with worker.working(f"embedded://{tmp_path}"):
            assert await kids(fabric.backend) == {EMBEDDED_KID}
