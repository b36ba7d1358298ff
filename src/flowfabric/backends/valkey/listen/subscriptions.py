"""A listener on pub/sub channels of the server."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable

from flowfabric.backends.notifications import Heard, News


class Ear(News[Heard], ABC):
    """Base of all listeners. Before the subscription is active, messages may have been missed."""

    def __init__(self, channels: Iterable[bytes]) -> None:
        super().__init__(anything=True)
        self.channels = set(channels)
        self.ready = asyncio.Event()

    @abstractmethod
    def hear(self, channel: bytes, text: bytes) -> None:
        """Take a message."""

    def fail(self, error: Exception) -> None:
        super().fail(error)
        self.ready.set()
