from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core.ids import BudgetId
from flowfabric.core.policy import (
    ExecutionPolicy,
    ExponentialBackoff,
    FallbackPolicy,
    FallbackTier,
    FixedBackoff,
    RetryPolicy,
    RoutingRequirements,
    StreamPolicy,
    SuspensionPolicy,
    TimeoutBehavior,
    TimeoutPolicy,
    policy_from_json,
    policy_to_json,
    retry_policy_from_json,
    retry_policy_to_json,
)
from flowfabric.errors import InvalidCapabilities, InvalidPolicy

DURATION = st.integers(1, 31_536_000_000)
LABEL = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
BACKOFF = st.builds(FixedBackoff, delay_ms=DURATION) | st.builds(
    lambda initial, multiplier, jitter: ExponentialBackoff(
        initial_delay_ms=initial, max_delay_ms=31_536_000_000, multiplier=multiplier, jitter=jitter
    ),
    DURATION,
    st.floats(1, 1000),
    st.booleans(),
)
RETRY = st.builds(
    RetryPolicy,
    max_retries=st.integers(0, 10_000),
    backoff=BACKOFF,
    retryable_categories=st.lists(LABEL, max_size=4, unique=True).map(tuple),
)
POLICIES = st.builds(
    ExecutionPolicy,
    priority=st.none() | st.integers(0, 9000),
    delay_until=st.none() | st.integers(0, 9_999_999_999_999),
    retry_policy=st.none() | RETRY,
    timeout_policy=st.none() | st.builds(TimeoutPolicy, attempt_timeout_ms=st.none() | DURATION),
    max_reclaim_count=st.none() | st.integers(0, 1_000_000),
    suspension_policy=st.none() | st.builds(SuspensionPolicy, timeout_behavior=st.sampled_from(TimeoutBehavior)),
    fallback_policy=st.none()
    | st.builds(
        FallbackPolicy,
        tiers=st.lists(st.builds(FallbackTier, provider=LABEL, model=LABEL), max_size=3, unique=True).map(tuple),
    ),
    budget_ids=st.lists(st.uuids().map(lambda value: BudgetId(str(value))), max_size=3, unique=True).map(tuple),
    routing_requirements=st.none()
    | st.builds(RoutingRequirements, required_capabilities=st.sets(st.sampled_from(["gpu", "cpu", "eu"])).map(tuple)),
    stream_policy=st.none() | st.builds(StreamPolicy, retention_ttl_ms=st.none() | DURATION),
)


@given(POLICIES)
def test_a_policy_survives_json(policy: ExecutionPolicy) -> None:
    text = policy_to_json(policy)
    assert policy_from_json(text) == policy
    assert policy_from_json(text.encode()) == policy
    assert "null" not in text.replace('"null"', "")


@given(RETRY)
def test_a_retry_policy_always_says_what_server_functions_would_guess_wrongly(policy: RetryPolicy) -> None:
    for members in (
        json.loads(retry_policy_to_json(policy)),
        json.loads(policy_to_json(ExecutionPolicy(retry_policy=policy)))["retry_policy"],
    ):
        assert members["max_retries"] == policy.max_retries
        assert members["backoff"]["type"] in ("fixed", "exponential")
    assert retry_policy_from_json(retry_policy_to_json(policy)) == policy


def test_defaults_and_absent_parts_are_not_written() -> None:
    assert policy_to_json(ExecutionPolicy()) == "{}"
    assert json.loads(policy_to_json(ExecutionPolicy(retry_policy=RetryPolicy(), stream_policy=StreamPolicy()))) == {
        "retry_policy": {"max_retries": 3, "backoff": {"type": "exponential"}},
        "stream_policy": {},
    }


def test_an_explicit_count_is_written_even_if_it_is_the_usual_one() -> None:
    assert policy_to_json(ExecutionPolicy(max_reclaim_count=100)) == '{"max_reclaim_count":100}'


def test_the_text_is_compact() -> None:
    text = policy_to_json(ExecutionPolicy(retry_policy=RetryPolicy(backoff=FixedBackoff(delay_ms=5))))
    assert " " not in text


def test_nulls_of_other_clients_are_read_as_absent() -> None:
    assert policy_from_json('{"priority":null,"retry_policy":null,"dedup_window_ms":null}') == ExecutionPolicy()


def test_what_is_absent_in_json_gets_its_default() -> None:
    policy = retry_policy_from_json("{}")
    assert (policy.max_retries, policy.backoff) == (3, ExponentialBackoff())
    assert retry_policy_from_json('{"backoff":{"type":"fixed"}}').backoff == FixedBackoff(delay_ms=1000)


def _nested(path: str, value: Any) -> dict[str, Any]:
    """`value` at `path` of an otherwise empty policy; a backoff is exponential unless the path ends there."""
    head, _, rest = path.partition(".")
    inner = _nested(rest, value) if rest else value
    return {head: {"type": "exponential"} | inner if head == "backoff" and rest else inner}


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("retry_policy.backoff.multiplier", 0.5, "at least 1"),
        ("retry_policy.backoff.multiplier", 1e9, "at most 1000"),
        ("retry_policy.backoff.max_delay_ms", 999, "at least initial_delay_ms"),
        ("retry_policy.backoff.initial_delay_ms", -1, "0 to 31536000000"),
        ("retry_policy.backoff.jitter", 1, "bool"),
        ("retry_policy.backoff.type", "linear", "one of fixed, exponential"),
        ("retry_policy.backoff.delay_ms", 1, "not a known field"),
        ("retry_policy.max_retries", -1, "0 to 10000"),
        ("retry_policy.max_retries", "3", "int"),
        ("retry_policy.max_retries", 10_001, "0 to 10000"),
        ("retry_policy.retryable_categories", [""], "1 to 64 bytes"),
        ("retry_policy.retryable_categories", ["a", "a"], "repeat"),
        ("retry", {}, "not a known field"),
        ("priority", 9001, "0 to 9000"),
        ("delay_until", -5, "0 to 9999999999999"),
        ("max_reclaim_count", 1.5, "int"),
        ("max_replay_count", -1, "0 to 1000000"),
        ("timeout_policy.attempt_timeout_ms", 0, "1 to"),
        ("timeout_policy.execution_deadline_ms", 31_536_000_001, "1 to 31536000000"),
        ("suspension_policy.timeout_behavior", "explode", "one of fail, cancel"),
        ("stream_policy.retention_maxlen", -1, "0 to"),
        ("budget_ids", "nope", "array"),
    ],
)
def test_a_bad_member_is_refused_with_its_path(path: str, value: object, problem: str) -> None:
    with pytest.raises(InvalidPolicy, match=problem) as caught:
        policy_from_json(json.dumps(_nested(path, value)))
    assert caught.value.field == path
    assert caught.value.code == "invalid_policy_json"


@pytest.mark.parametrize(
    ("text", "path", "problem"),
    [
        ('{"retry_policy":{"backoff":{}}}', "retry_policy.backoff.type", "missing"),
        ('{"fallback_policy":{"tiers":[{"provider":"p"}]}}', "fallback_policy.tiers[0].model", "missing"),
        (
            '{"fallback_policy":{"tiers":[{"provider":"","model":"m"}]}}',
            "fallback_policy.tiers.provider",
            "1 to",
        ),
        ('{"budget_ids":["nope"]}', "budget_ids[0]", "UUID"),
        ("[]", "json", "object"),
        ("{", "json", "truncated"),
        ("", "json", "truncated"),
        (b'{"priority":"\xff"}', "priority", "int"),
        (b'{"stream_policy":{"durability_mode":"\xff"}}', "json", "UTF-8"),
        (7, "policy", "JSON text"),
    ],
)
def test_a_bad_text_is_refused_with_the_path(text: str, path: str, problem: str) -> None:
    with pytest.raises(InvalidPolicy, match=problem) as caught:
        policy_from_json(text)
    assert caught.value.field == path


def test_a_refusal_quotes_the_value() -> None:
    with pytest.raises(InvalidPolicy) as caught:
        ExponentialBackoff(multiplier=0.5)
    assert caught.value.message == "retry_policy.backoff.multiplier: must be at least 1 (got 0.5)"


def test_a_bad_retry_policy_alone_names_the_same_path() -> None:
    with pytest.raises(InvalidPolicy) as caught:
        retry_policy_from_json('{"max_retries":"many"}')
    assert caught.value.field == "retry_policy.max_retries"


@pytest.mark.parametrize("token", ["", "a b", "a,b"])
def test_capabilities_in_a_policy_follow_the_grammar(token: str) -> None:
    with pytest.raises(InvalidCapabilities) as caught:
        policy_from_json(json.dumps({"routing_requirements": {"required_capabilities": [token]}}))
    assert caught.value.field == "routing_requirements.required_capabilities"


def test_required_capabilities_are_a_sorted_set() -> None:
    policy = policy_from_json('{"routing_requirements":{"required_capabilities":["gpu","cpu","gpu"]}}')
    assert policy.routing_requirements is not None
    assert policy.routing_requirements.required_capabilities == ("cpu", "gpu")


@pytest.mark.parametrize(
    ("build", "path"),
    [
        (lambda: ExecutionPolicy(retry_policy={"max_retries": 1}), "retry_policy"),  # type: ignore[arg-type]
        (lambda: ExecutionPolicy(priority=True), "priority"),
        (lambda: ExecutionPolicy(budget_ids="abc"), "budget_ids"),  # type: ignore[arg-type]
        (lambda: ExecutionPolicy(budget_ids=["abc"]), "budget_ids"),  # type: ignore[arg-type]
        (lambda: ExecutionPolicy(budget_ids=[{}]), "budget_ids"),  # type: ignore[arg-type]
        (lambda: RetryPolicy(backoff="fixed"), "retry_policy.backoff"),  # type: ignore[arg-type]
        (lambda: RetryPolicy(retryable_categories="timeout"), "retry_policy.retryable_categories"),  # type: ignore[arg-type]
        (lambda: ExponentialBackoff(multiplier=float("nan")), "retry_policy.backoff.multiplier"),
        (lambda: ExponentialBackoff(multiplier=float("inf")), "retry_policy.backoff.multiplier"),
        (lambda: ExponentialBackoff(multiplier=10**400), "retry_policy.backoff.multiplier"),
        (lambda: ExponentialBackoff(multiplier=True), "retry_policy.backoff.multiplier"),
        (lambda: ExponentialBackoff(jitter=1), "retry_policy.backoff.jitter"),  # type: ignore[arg-type]
        (lambda: FixedBackoff(delay_ms=0.5), "retry_policy.backoff.delay_ms"),  # type: ignore[arg-type]
        (lambda: FallbackPolicy(tiers=[{}]), "fallback_policy.tiers"),  # type: ignore[arg-type]
        (lambda: SuspensionPolicy(timeout_behavior=[]), "suspension_policy.timeout_behavior"),  # type: ignore[arg-type]
        (lambda: StreamPolicy(durability_mode=""), "stream_policy.durability_mode"),
    ],
)
def test_a_policy_built_in_python_is_checked_just_the_same(build: Any, path: str) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        build()
    assert caught.value.field == path


def test_a_policy_has_a_maximum_size() -> None:
    with pytest.raises(InvalidPolicy, match="65536 bytes"):
        policy_from_json('{"priority":1' + " " * 65_536 + "}")


def test_a_policy_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        ExecutionPolicy().priority = 1  # type: ignore[misc]
    assert msgspec.structs.replace(ExecutionPolicy(), priority=1).priority == 1
