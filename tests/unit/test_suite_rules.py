"""What the test tree promises: conformance tests know ports and the probe alone, and rooms stay small."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
MOST_FILES = 20
# A connection, a key, the function library, a private name of a backend, or a module that has them.
OF_ONE_STORE = re.compile(
    r"\.client\b|flowfabric\.backends\.(valkey|http|sql)|tests\.valkey|[\"']ff:|\bbackend\._|FCALL|\bbundle\("
)


def test_conformance_tests_use_ports_and_the_probe_alone() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{number}: {line.strip()}"
        for path in sorted((TESTS / "conformance").rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if OF_ONE_STORE.search(line)
    ]
    assert not found, "move what looks into one store to tests/valkey, or ask the probe:\n" + "\n".join(found)


def test_no_room_of_these_suites_has_too_many_files() -> None:
    rooms = [
        room for name in ("conformance", "stores", "valkey") for room in (TESTS / name, *(TESTS / name).rglob("*/"))
    ]
    counts = {str(room.relative_to(TESTS)): len(list(room.glob("*.py"))) for room in rooms}
    assert {room: count for room, count in counts.items() if count > MOST_FILES} == {}


def test_test_files_have_names_of_their_own() -> None:
    """There are no packages in the test tree: pytest tells test files apart by their names alone."""
    names = Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_a_soak_runs_every_test_that_is_longer_there() -> None:
    makefile = (TESTS.parent / "Makefile").read_text()
    soaked = re.search(r"^SOAKED := ((?:.*\\\n)*.*)", makefile, re.MULTILINE)
    assert soaked is not None
    places = [TESTS.parent / each for each in soaked[1].replace("\\", " ").split()]
    assert all(place.exists() for place in places)
    uses = re.compile(r"^from tests\.soaking import", re.MULTILINE)
    longer = [path for path in TESTS.rglob("test_*.py") if uses.search(path.read_text())]
    assert [path for path in longer if not any(path.is_relative_to(place) for place in places)] == []
