"""The contract in the head of each file is complete and true."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from flowfabric.backends.valkey.library.bundle import LIBRARY_VERSION, build, bundle
from flowfabric.backends.valkey.library.contract import FunctionSpec, parse_contract, uses_of
from flowfabric.errors import CODES
from tests.valkey.lua.sources import FUNCTIONS, MODULES, code_of

# What the public wire lists: keys and arguments at 0.2.0, or where the function was added later.
PUBLIC_ARITY = {
    "version": (0, 0), "create_execution": (8, 13), "claim_execution": (14, 12), "complete_execution": (12, 5),
    "cancel_execution": (21, 5), "delay_execution": (9, 5), "move_to_waiting_children": (9, 4),
    "fail_execution": (12, 7), "reclaim_execution": (14, 8), "expire_execution": (14, 2), "renew_lease": (4, 7),
    "mark_lease_expired_if_due": (4, 1), "revoke_lease": (5, 3), "issue_claim_grant": (3, 9),
    "issue_reclaim_grant": (3, 9), "change_priority": (2, 2), "update_progress": (1, 5), "promote_delayed": (3, 2),
    "block_execution_for_admission": (3, 4), "unblock_execution": (3, 3), "claim_resumed_execution": (11, 8),
    "replay_execution": (4, 2), "issue_grant_and_claim": (11, 11), "suspend_execution": (17, 17),
    "resume_execution": (8, 3), "create_pending_waitpoint": (4, 5), "expire_suspension": (12, 1),
    "close_waitpoint": (3, 2), "deliver_signal": (14, 18), "buffer_signal_for_pending_waitpoint": (9, 18),
    "append_frame": (3, 13), "read_attempt_stream": (2, 3), "read_summary": (1, 0), "create_budget": (5, 9),
    "report_usage_and_check": (3, 1), "record_spend": (5, 1), "release_budget": (3, 2), "reset_budget": (3, 2),
    "create_quota_policy": (5, 5), "check_admission_and_record": (5, 6), "release_admission": (3, 1),
    "rotate_waitpoint_hmac_secret": (1, 3), "list_waitpoint_hmac_kids": (1, 0), "create_flow": (3, 4),
    "add_execution_to_flow": (4, 3), "cancel_flow": (3, 4), "stage_dependency_edge": (6, 8),
    "apply_dependency_to_child": (7, 7), "resolve_dependency": (11, 3), "evaluate_flow_eligibility": (2, 0),
    "promote_blocked_to_eligible": (5, 2), "set_edge_group_policy": (2, 4), "set_flow_tags": (2, 0),
    "ack_cancel_member": (2, 2), "drain_sibling_cancel_group": (2, 2), "reconcile_sibling_cancel_group": (2, 2),
}  # fmt: skip

# What the end of a member can bring about in the same step.
FOLLOWING = {
    "completed", "failed", "cancelled", "skipped", "unblocked", "claimed", "resumed", "flow_completed", "flow_failed",
    "flow_cancelled",
}  # fmt: skip


def beyond_headers(written: Callable[[str], set[str]], named: Callable[[FunctionSpec], Iterable[str]]) -> set[str]:
    """What functions write and their headers do not name, as `operation: word`."""
    return {
        f"{operation}: {word}"
        for operation in FUNCTIONS
        for word in written(code_of(FUNCTIONS[operation])) - set(named(bundle().functions[operation]))
    }


def test_every_code_a_header_names_is_known() -> None:
    assert not {code for spec in bundle().functions.values() for code in spec.errors} - CODES.keys()


def test_every_code_a_function_writes_is_in_its_header() -> None:
    assert not beyond_headers(lambda code: set(re.findall(r'reply\.refuse\("(\w+)"', code)), lambda spec: spec.errors)


def test_every_event_a_function_writes_is_in_its_header() -> None:
    def written(code: str) -> set[str]:
        return set(re.findall(r'event = "(\w+)"', code)) | set(re.findall(r'event\.append\(x, "(\w+)"', code))

    assert not beyond_headers(written, lambda spec: spec.events)


def test_whoever_can_end_an_execution_names_what_follows_in_its_flow() -> None:
    ends = {"completed", "failed", "cancelled", "expired", "skipped"}
    ending = {name: set(spec.events) for name, spec in bundle().functions.items() if ends & set(spec.events)}
    assert ending
    assert not {name: FOLLOWING - events for name, events in ending.items() if not events >= FOLLOWING}


def test_uses_lists_exactly_the_modules_a_file_uses() -> None:
    wrong = {}
    for name in (*FUNCTIONS, *MODULES):
        source = FUNCTIONS.get(name) or MODULES[name]
        code = code_of(source)
        used = {module for module in MODULES if re.search(rf"(?<![\w.]){module}\.\w", code) and module != name}
        if set(uses_of(source)) != used:
            wrong[name] = set(uses_of(source)) ^ used
    assert not wrong


def test_only_the_clock_asks_for_the_time() -> None:
    assert [name for name in MODULES if '"TIME"' in MODULES[name]] == ["clock"]


def test_public_positions_are_kept() -> None:
    wrong = []
    for operation, (keys, args) in PUBLIC_ARITY.items():
        spec = bundle().functions[operation]
        appended = spec.args[args:]
        if len(spec.keys) != keys or not all(arg.optional or arg.default is not None or arg.rest for arg in appended):
            wrong.append(operation)
    assert not wrong


def test_a_function_refuses_before_it_writes() -> None:
    """Four paragraphs: after the first write no refusal follows."""
    wrong = []
    for operation, source in FUNCTIONS.items():
        body = code_of(source).rpartition("return function(")[2]
        write = re.search(r"(transition\.apply|terminal\.finish|record\.(write|change)|\.consume\(|\.issue\()", body)
        if write and re.search(r"reply\.(refuse|invalid)", body[write.start() :]):
            wrong.append(operation)
    assert not wrong


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("return 1", "summary"),
        ("--- ok\n-- @keys core\n-- @colour red\n", "@colour"),
        ("--- ok\n-- @args Bad\n", "@args"),
        ("--- ok\n-- @args n:float\n", "unknown type"),
        ("--- ok\n-- @args *rest more\n", "only the last"),
    ],
)
def test_a_malformed_header_is_refused_with_the_file_and_the_tag(source: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r"some_function\.lua") as caught:
        parse_contract("some_function", source)
    assert problem in str(caught.value)


def test_modules_that_use_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="form a cycle"):
        build({"a.lua": "-- @uses b\nreturn {}", "b.lua": "-- @uses a\nreturn {}"}, {})


def test_an_unknown_module_is_refused() -> None:
    with pytest.raises(ValueError, match="no such module"):
        build({"a.lua": "-- @uses b\nreturn {}"}, {})
    with pytest.raises(ValueError, match="no such module"):
        build({}, {"f.lua": "--- f\n-- @uses nothing\nreturn function() end"})


def test_the_library_version_is_raised_when_the_bundle_changes() -> None:
    import json

    lock = json.loads(Path("tests/golden/library.json").read_text())
    hint = "the bundle changed: raise LIBRARY_VERSION if this was released, then run scripts/library_lock.py"
    assert lock == {"version": LIBRARY_VERSION, "sha256": bundle().sha256}, hint


def test_one_module_alone_writes_the_ticket_of_a_record_so_that_none_goes_without_its_debt() -> None:
    """Whoever overwrites or drops it owes what was given under it; lib/limits/offering.lua does so in the same step."""
    writes = re.compile(r'\.admission\s*=[^=]|"admission"')
    found = {name for name, source in {**FUNCTIONS, **MODULES}.items() if writes.search(code_of(source))}
    assert found - {"find_unheld"} == {"offering"}, "find_unheld reads single fields"


def test_calls_against_the_order_of_modules_are_documented_and_registered_once() -> None:
    code = {name: code_of(source) for name, source in {**FUNCTIONS, **MODULES}.items()}
    registered = [
        call for text in code.values() for call in re.findall(r"upcalls\.(\w+) =|function upcalls\.(\w+)", text)
    ]
    names = sorted(one or other for one, other in registered)
    called = {call for text in code.values() for call in re.findall(r"(?<!function )upcalls\.(\w+)\(", text)}
    documented = set(re.findall(r"^--   (\w+)\(", MODULES["upcalls"], re.MULTILINE))
    assert set(names) == called == documented
    assert len(names) == len(set(names)) == 3
