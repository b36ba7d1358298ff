from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from flowfabric import errors
from flowfabric.core.cursor import CursorProblem, StreamCursorParseError
from flowfabric.errors import CODES, ErrorClass, Family, FlowFabricError, InvalidInput, error_class_for

ROOT = Path(__file__).parents[3]
CLASSES = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, FlowFabricError)]


def test_every_code_has_a_family_a_class_and_a_meaning() -> None:
    for code, info in CODES.items():
        assert info.family in Family, code
        assert info.error_class in ErrorClass, code
        assert info.meaning, code
        assert code.islower(), code
        assert code.replace("_", "").isalnum(), code


def test_every_class_is_named_by_its_public_import_path() -> None:
    """Recorded step failures store this name, and workers of other versions load it."""
    assert [kind.__name__ for kind in CLASSES if kind.__module__ != "flowfabric.errors"] == []


FAMILY_CLASSES = {
    Family.NOT_FOUND: errors.NotFound,
    Family.CONFLICT: errors.Conflict,
    Family.INVALID: errors.Invalid,
    Family.LIMITED: errors.Limited,
    Family.UNAVAILABLE: errors.Unavailable,
    Family.INTERNAL: errors.Internal,
}


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind is not FlowFabricError])
def test_every_class_has_a_code_of_its_own_family(kind: type[FlowFabricError]) -> None:
    assert issubclass(kind, FAMILY_CLASSES[CODES[kind.default_code].family])


def test_a_code_is_raised_as_a_class_of_its_family() -> None:
    for code, info in CODES.items():
        assert issubclass(error_class_for(code), FAMILY_CLASSES[info.family]), code


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("execution_not_found", errors.ExecutionNotFound),
        ("stale_lease", errors.StaleLease),
        ("lease_expired", errors.LeaseExpired),
        ("lease_revoked", errors.LeaseRevoked),
        ("execution_not_active", errors.ExecutionNotActive),
        ("capability_mismatch", errors.CapabilityMismatch),
        ("backend_timeout", errors.BackendTimeout),
        ("flow_not_found", errors.NotFound),
        ("grant_already_exists", errors.Conflict),
        ("invalid_input", errors.Invalid),
        ("budget_exceeded", errors.BudgetExceeded),
        ("corruption", errors.Corruption),
    ],
)
def test_well_known_codes_have_well_known_classes(code: str, kind: type[FlowFabricError]) -> None:
    assert error_class_for(code) is kind


def test_a_code_nobody_knows_is_a_bad_reply() -> None:
    assert error_class_for("from_the_future") is errors.BadReply


def test_an_error_says_its_code_and_meaning() -> None:
    error = errors.StaleLease(lease_epoch=3)
    assert str(error) == "stale_lease: another lease owns the execution; stop working on it"
    assert error.details == {"lease_epoch": 3}
    assert (error.family, error.error_class, error.retryable) == (Family.CONFLICT, ErrorClass.TERMINAL, False)


def test_only_the_retryable_class_is_worth_repeating() -> None:
    for code, info in CODES.items():
        error = error_class_for(code)("", code=code)
        assert error.retryable is (info.error_class is ErrorClass.RETRYABLE)


def test_bad_input_names_field_value_and_what_is_allowed() -> None:
    error = InvalidInput("priority", 9001, "must be from 0 to 9000")
    assert str(error) == "invalid_input: priority: must be from 0 to 9000 (got 9001)"
    assert error.details == {"field": "priority"}


def test_a_long_value_is_not_quoted_in_full() -> None:
    assert len(str(InvalidInput("payload", "x" * 10_000, "is too long"))) < 200


def test_a_bad_cursor_is_bad_input_with_its_own_code() -> None:
    error = StreamCursorParseError("-", CursorProblem.BARE_MARKER)
    assert isinstance(error, InvalidInput)
    assert error.code in CODES


def test_the_reference_lists_every_code_as_it_is() -> None:
    written = (ROOT / "docs" / "reference" / "errors.md").read_text()
    assert written == _printer().errors(), "run: make docs"
    rows = [line for line in written.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{code}` | {info.family} | {info.error_class} | {info.meaning} |" for code, info in CODES.items()
    ]


def _printer() -> Any:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "scripts" / "generate_docs.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_every_code_is_a_member_of_the_enum() -> None:
    assert {code.value for code in errors.ErrorCode} == set(errors.CODES)
    assert errors.ErrorCode("stale_lease") == "stale_lease"
