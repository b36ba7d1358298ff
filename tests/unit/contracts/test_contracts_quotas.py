"""What the contracts of quotas and attachments refuse before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import QuotaPolicyId
from flowfabric.core.policy import ExecutionPolicy, policy_from_json, policy_to_json
from flowfabric.errors import InvalidInput, InvalidPolicy


def quota(**overrides: Any) -> c.CreateQuotaPolicyArgs:
    return c.CreateQuotaPolicyArgs(**{"quota_policy_id": QuotaPolicyId.new(), "max_concurrent": 1, **overrides})


def test_a_window_comes_with_its_rate() -> None:
    assert quota(window_seconds=60, max_requests_per_window=5).max_requests_per_window == 5
    for half in ({"window_seconds": 60}, {"max_requests_per_window": 5}):
        with pytest.raises(InvalidInput) as caught:
            quota(**half)
        assert (caught.value.field, caught.value.code) == ("window_seconds", "invalid_quota_spec")


def test_a_scope_is_given_whole() -> None:
    assert quota(scope_type="namespace", scope_id="acme").scope_type is c.LimitScope.NAMESPACE
    for half in ({"scope_type": "lane"}, {"scope_id": "default"}):
        with pytest.raises(InvalidInput, match="scope_id"):
            quota(**half)


def test_a_limit_is_attached_by_its_kind_and_id() -> None:
    args: dict[str, Any] = {"scope_type": "lane", "scope_id": "x", "limit_kind": "quota"}
    assert c.AttachLimitArgs(**args, limit_id=QuotaPolicyId.new()).limit_kind is c.LimitKind.QUOTA
    with pytest.raises(InvalidInput, match="limit_id"):
        c.AttachLimitArgs(**args, limit_id="not-a-uuid")


def test_a_policy_names_the_quotas_of_its_execution() -> None:
    policy = ExecutionPolicy(quota_policy_ids=(QuotaPolicyId.new(),))
    assert policy_from_json(policy_to_json(policy)) == policy
    for wrong in (("x",), (policy.quota_policy_ids[0],) * 2):
        with pytest.raises(InvalidPolicy, match="quota_policy_ids"):
            ExecutionPolicy(quota_policy_ids=wrong)  # type: ignore[arg-type]
