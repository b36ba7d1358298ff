"""Stores behind one set of ports; `open_backend` opens one."""

from __future__ import annotations

from dataclasses import replace

from flowfabric.backends.ports import EngineBackend
from flowfabric.config import Settings


async def open_backend(url: str | None = None, settings: Settings | None = None) -> EngineBackend:
    """Open the store at `url`, or the one named by the settings or the environment.

    embedded://[directory], valkey://host[,replica...], valkeys:// (TLS), valkey+unix://, valkey+cluster://, valkeys+cluster://,
    redis://, rediss:// (Redis 7.0 or newer), https:// and http:// (a FlowFabric server).
    """
    settings = settings or Settings.from_env()
    settings = replace(settings, url=url) if url is not None else settings
    if settings.url.startswith(("http://", "https://")):
        from flowfabric.backends.http.backend import HttpBackend  # noqa: PLC0415 - one backend, one set of imports

        return await HttpBackend.open(settings)
    from flowfabric.backends.valkey.backend import ValkeyBackend  # noqa: PLC0415

    return await ValkeyBackend.open(settings)
