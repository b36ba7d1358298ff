"""The Lua sources by name, and their code without comments."""

from __future__ import annotations

import re
from importlib.resources import files

_ROOT = files("flowfabric.backends.valkey").joinpath("lua")


def _read(folder: str) -> dict[str, str]:
    entries = sorted(_ROOT.joinpath(folder).iterdir(), key=lambda entry: entry.name)
    return {entry.name.removesuffix(".lua"): entry.read_text() for entry in entries}


FUNCTIONS = _read("fn")
MODULES = _read("lib")


def code_of(source: str) -> str:
    return re.sub(r"--.*", "", source)
