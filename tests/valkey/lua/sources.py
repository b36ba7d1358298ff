"""The Lua sources by name, and their code without comments."""

from __future__ import annotations

import re
from typing import Literal

from flowfabric.backends.valkey.library.bundle import sources


def _read(folder: Literal["fn", "lib"]) -> dict[str, str]:
    return {name: text for name, _, text in sorted(_named(folder))}


def _named(folder: Literal["fn", "lib"]) -> list[tuple[str, str, str]]:
    """Name, place and text of each Lua file."""
    found = sources(folder).items()
    return [(path.rpartition("/")[2].removesuffix(".lua"), f"{folder}/{path}", text) for path, text in found]


_KINDS: tuple[Literal["fn", "lib"], ...] = ("fn", "lib")
# Where each file is, by its kind and name.
PLACES = {(kind, name): place for kind in _KINDS for name, place, _ in _named(kind)}


FUNCTIONS = _read("fn")
MODULES = _read("lib")


def code_of(source: str) -> str:
    return re.sub(r"--.*", "", source)
