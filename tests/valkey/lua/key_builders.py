"""Every place that builds a key, read from the sources: what is fixed in it, and what is put in between."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, NamedTuple

from flowfabric.backends import valkey
from tests.valkey.lua.sources import FUNCTIONS, MODULES, PLACES, code_of

# One operand of a concatenation: text, something in brackets, or a name with what follows it.
_OPERAND = r'(?:"[^"]*"|\((?:[^()]|\([^()]*\))*\)|\w+(?:\.\w+)*(?:\((?:[^()]|\([^()]*\))*\)|\[[^\]]*\])*)'
_CHAIN = re.compile(rf'"ff:[^"]*"(?:\s*\.\.\s*{_OPERAND})*')
_FORMAT = re.compile(r'f"(ff:[^"]*)"')


class Builder(NamedTuple):
    """`fixed` has a `*` where an operand is."""

    place: str
    fixed: str
    operands: tuple[str, ...]

    @property
    def ends_fixed(self) -> bool:
        return not self.fixed.endswith("*")


def _of_lua(place: str, chain: str) -> Builder:
    parts = re.findall(_OPERAND, chain)
    fixed = "".join(part.strip('"') if part.startswith('"') else "*" for part in parts)
    return Builder(place, fixed, tuple(part for part in parts if not part.startswith('"')))


def lua_builders() -> list[Builder]:
    """Those of messages, which show how a key must look, hold `<` or `{tag}`."""
    found = []
    folders: tuple[tuple[Literal["fn", "lib"], dict[str, str]], ...] = (("lib", MODULES), ("fn", FUNCTIONS))
    for folder, sources in folders:
        for name, source in sources.items():
            found += [_of_lua(PLACES[folder, name], match[0]) for match in _CHAIN.finditer(code_of(source))]
    return [each for each in found if "<" not in each.fixed and "{tag}" not in each.fixed]


def python_builders() -> list[Builder]:
    found = []
    for path in Path(valkey.__file__).parent.rglob("*.py"):
        for match in _FORMAT.finditer(path.read_text()):
            text = match[1].replace("{{", "\0").replace("}}", "\1")
            operands = tuple(re.findall(r"\{([^}]*)\}", text))
            fixed = re.sub(r"\{[^}]*\}", "*", text).replace("\0", "{").replace("\1", "}")
            found.append(Builder(path.name, fixed, operands))
    return found
