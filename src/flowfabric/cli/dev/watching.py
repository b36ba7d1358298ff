"""Notice changed files of a module by polling them a few times a second."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from flowfabric.cli.loading import check_target, use_this_directory
from flowfabric.errors import InvalidInput

_LOOK_AGAIN_S: Final = 0.25

Stamps: TypeAlias = dict[str, tuple[int, int]]  # time and size of each file


@dataclass(frozen=True, slots=True)
class Root:
    """A directory whose Python files are watched; with `deep`, subdirectories too."""

    directory: Path
    deep: bool


def roots_of(target: str) -> list[Root]:
    """The directories to watch for a module: its whole top-level package, or the directory of a single file."""
    top = check_target(target).partition(".")[0]
    use_this_directory()
    spec = importlib.util.find_spec(top)
    if spec is None:
        raise InvalidInput("MODULE", target, f"no module named {top!r} in {Path.cwd()}")
    if spec.submodule_search_locations is not None:
        return [Root(Path(place), deep=True) for place in spec.submodule_search_locations]
    return [Root(Path(spec.origin or "").parent, deep=False)]


def directory_root(option: str, text: str) -> Root:
    directory = Path(text)
    if not directory.is_dir():
        raise InvalidInput(option, text, "must be a directory")
    return Root(directory, deep=True)


class Watcher:
    """Remembers the files as they were at the last look."""

    def __init__(self, roots: Sequence[Root]) -> None:
        self._roots = roots
        self._known = self._look()

    async def changed(self) -> list[str]:
        """Wait until files change, appear or disappear and then stay unchanged; returns their paths."""
        found: set[str] = set()
        while True:
            now = await asyncio.to_thread(self._look)
            changed = {path for path in now.keys() | self._known.keys() if now.get(path) != self._known.get(path)}
            self._known = now
            if found and not changed:
                return sorted(found)
            found |= changed
            await asyncio.sleep(_LOOK_AGAIN_S)

    def _look(self) -> Stamps:
        stamps: Stamps = {}
        for root in self._roots:
            for path in _python_files(root):
                try:
                    info = os.stat(path)
                except FileNotFoundError:  # deleted since it was listed
                    continue
                stamps[path] = info.st_mtime_ns, info.st_size
        return stamps


def _python_files(root: Root) -> Iterator[str]:
    for directory, below, names in os.walk(root.directory):
        below[:] = [name for name in below if root.deep and not name.startswith((".", "__pycache__"))]
        yield from (os.path.join(directory, name) for name in names if name.endswith(".py"))
