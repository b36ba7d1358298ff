"""Stores behind one set of ports; `open_backend` is the way in."""

from __future__ import annotations

from dataclasses import replace

from flowfabric.backends.ports import EngineBackend
from flowfabric.config import Settings


async def open_backend(url: str | None = None, settings: Settings | None = None) -> EngineBackend:
    """Open the store at `url`, or the one the settings or the environment name.

    embedded://[directory], valkey://host[,replica...], valkeys:// (TLS), valkey+unix://, valkey+cluster://, valkeys+cluster://,
    redis://, rediss:// (Redis 7.0 or newer).
    """
    from flowfabric.backends.valkey.backend import ValkeyBackend  # noqa: PLC0415 - one backend, one set of imports

    settings = settings or Settings.from_env()
    return await ValkeyBackend.open(replace(settings, url=url) if url is not None else settings)
