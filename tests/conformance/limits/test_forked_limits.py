"""A fork has the limits of its source, also those of a flow that it is no member of."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from tests.conformance.driver import Subject
from tests.conformance.flowing import Graph
from tests.conformance.limiting import Limits


@pytest.mark.parametrize("scope", ["execution", "flow"])
async def test_limits_that_were_attached_to_the_source_apply_to_the_fork(limits: Limits, scope: str) -> None:
    driver, graph = limits.driver, await Graph(limits.driver).submit("a")
    budget, quota = await limits.budget({"tokens": 10}), await limits.quota(max_concurrent=1)
    scope_id = graph.ids["a"] if scope == "execution" else graph.flow_id
    for kind, limit_id in ((c.LimitKind.BUDGET, budget), (c.LimitKind.QUOTA, quota)):
        args = c.AttachLimitArgs(
            scope_type=c.LimitScope(scope), scope_id=str(scope_id), limit_kind=kind, limit_id=str(limit_id)
        )
        await driver.backend.attach_limit(args)
    await graph.end("a", "cancelled")
    forked = await driver.fork(Subject(graph.ids["a"]))
    explained = await driver.backend.explain_execution(forked.execution_id)
    assert (explained.budget_ids, explained.quota_policy_ids) == ((budget,), (quota,))
