"""Stores whose servers are processes of the test run."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import ClassVar

from tests.servers import TestCluster, TestServer
from tests.valkey.probe import ValkeyStore


class StartedStore(ValkeyStore):
    starter: ClassVar[staticmethod[[], AbstractContextManager[TestServer | TestCluster]]]

    def start(self, directory: Path) -> None:
        self._running = ExitStack()
        self.url = self._running.enter_context(self.starter()).url

    def stop(self) -> None:
        self._running.close()
