"""The drivers of the conformance suite, on a Valkey: they have its client and its private calls too."""

from __future__ import annotations

from flowfabric.backends.valkey.backend import ValkeyBackend
from tests.conformance import driver, limiting
from tests.valkey.probe import ValkeyProbe


class Driver(driver.Driver):
    probe: ValkeyProbe
    backend: ValkeyBackend

    def __init__(self, probe: ValkeyProbe, backend: ValkeyBackend | None = None) -> None:
        super().__init__(probe, backend)


class Limits(limiting.Limits):
    driver: Driver
    backend: ValkeyBackend
    probe: ValkeyProbe

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
