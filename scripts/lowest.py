"""The lowest version of all that pyproject.toml names, as constraints of pip; `make lowest` installs and tests them."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def requirements() -> list[Requirement]:
    """Those of the package and of its extras, without the extras that name each other."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    found = [Requirement(text) for texts in lists for text in texts]
    return [requirement for requirement in found if requirement.name != project["name"]]


def lowest(requirement: Requirement) -> str:
    """The version of its `>=`."""
    return next(bound.version for bound in requirement.specifier if bound.operator == ">=")


if __name__ == "__main__":
    lines = {f"{requirement.name}=={lowest(requirement)}\n" for requirement in requirements()}
    sys.stdout.writelines(sorted(lines))
