"""The kinds of stores by name, each started when a test first asks for it."""

from __future__ import annotations

from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.stores.probe import CAPABILITIES, HasUrl, Store

# The first two run every conformance test; the others run what is marked `every_store`, and everything in a soak.
WHOLE: Final = ("embedded", "http")
PART: Final = ("batched", "cluster", "three_nodes")
KINDS: Final = (*WHOLE, *PART)
UNMARKED: Final = ("standalone",)  # the same server as the embedded one; chosen by name alone


def kind_of(name: str) -> type[Store]:
    kind: type[Store] = import_module(f"tests.stores.{name}").STORE
    unknown = kind.lacks.keys() - CAPABILITIES.keys()
    assert not unknown, f"{name} lacks {sorted(unknown)}, which tests.stores.probe.CAPABILITIES does not name"
    return kind


class Stores:
    """The stores of one test run."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: dict[str, Store] = {}
        self._stack = ExitStack()

    def get(self, name: str) -> Store:
        if name not in self._started:
            store = kind_of(name)()
            store.start(self._directory)
            self._stack.callback(store.stop)
            self._started[name] = store
        return self._started[name]

    def url(self, name: str) -> str:
        """Return the address of a store, for a test that opens it by itself."""
        store = self.get(name)
        assert isinstance(store, HasUrl), f"the store {name} has no URL"
        return store.url

    def stop(self) -> None:
        self._stack.close()
