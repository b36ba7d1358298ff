"""Files, functions and folders stay small enough to read; the budgets are in CONTRIBUTING.md."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON_FILE, PYTHON_FUNCTION, LUA_FN, LUA_LIB, FOLDER = 400, 50, 100, 150, 20


def problems() -> Iterator[str]:
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_text()
        name = path.relative_to(ROOT)
        if (lines := text.count("\n")) > PYTHON_FILE:
            yield f"{name}: {lines} lines, at most {PYTHON_FILE}"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > PYTHON_FUNCTION:
                    yield f"{name}:{node.lineno}: {node.name} has {length} lines, at most {PYTHON_FUNCTION}"
    for kind, limit in (("fn", LUA_FN), ("lib", LUA_LIB)):
        for path in sorted((ROOT / "src/flowfabric/backends/valkey/lua" / kind).rglob("*.lua")):
            if (lines := path.read_text().count("\n")) > limit:
                yield f"{path.relative_to(ROOT)}: {lines} lines, at most {limit}"
    yield from crowded_folders()


def crowded_folders() -> Iterator[str]:
    files = [path for top in ("src", "tests") for path in (ROOT / top).rglob("*") if path.is_file()]
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in files if path.suffix != ".pyc")
    for folder, count in sorted(counts.items()):
        if count > FOLDER:
            yield f"{folder}: {count} files, at most {FOLDER}; make folders named after what they hold"


if __name__ == "__main__":
    found = list(problems())
    sys.stdout.writelines(f"{line}\n" for line in found)
    sys.exit(1 if found else 0)
