"""Limits of scopes: a lane, a namespace, a flow, an execution; and limits that cannot be read (G11)."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId, LaneId, Namespace, QuotaPolicyId
from flowfabric.core.states import PublicState
from tests.conformance.driver import Subject
from tests.conformance.flowing import Graph
from tests.conformance.limiting import Limits, finish, ids, partition_of


class TestScopes:
    @pytest.mark.parametrize("scope", ["lane", "namespace", "execution"])
    async def test_a_scope_limits_its_executions(self, limits: Limits, scope: str) -> None:
        x = await limits.submit()
        other = await limits.driver.create(namespace=Namespace("theirs"), lane_id=LaneId("theirs"))
        scope_id = {"lane": "default", "namespace": "tests", "execution": x.execution_id}[scope]
        budget = await limits.budget({"tokens": 1}, scope_type=scope, scope_id=scope_id)
        await limits.spend(budget, tokens=1)
        assert await limits.driver.take(1) == []
        assert ids(await limits.driver.take(1, lane_id="theirs")) == [other.execution_id]
        attached = c.AttachLimitArgs(
            scope_type=c.LimitScope(scope), scope_id=scope_id, limit_kind=c.LimitKind.BUDGET, limit_id=budget
        )
        assert await limits.backend.detach_limit(attached) == (1 if scope == "execution" else 256)
        await limits.driver.unblock(x)
        assert ids(await limits.driver.take(1)) == [x.execution_id]

    async def test_a_flow_limits_its_members(self, limits: Limits) -> None:
        graph, quota = Graph(limits.driver), await limits.quota(max_concurrent=1)
        args = c.AttachLimitArgs(
            scope_type=c.LimitScope.FLOW, scope_id=graph.flow_id, limit_kind=c.LimitKind.QUOTA, limit_id=quota
        )
        assert await limits.backend.attach_limit(args) == 1
        await graph.submit("a b a>z b>z")
        partition = partition_of(Subject(graph.ids["a"]))
        (held,) = await limits.driver.take(2, partition=partition)
        assert sorted((await graph.states()).values()) == ["active", "rate_limited", "waiting_children"]
        for _ in range(2):
            await finish(limits, held)
            await limits.drain(held)
            await graph.check()
            (held,) = await limits.driver.take(2, partition=partition)
        await finish(limits, held)
        assert await graph.flow_state() == "completed"

    async def test_a_flow_whose_members_all_wait_for_a_budget_is_blocked_until_it_opens(self, limits: Limits) -> None:
        graph, budget = Graph(limits.driver), await limits.budget({"tokens": 10})
        args = c.AttachLimitArgs(
            scope_type=c.LimitScope.FLOW, scope_id=graph.flow_id, limit_kind=c.LimitKind.BUDGET, limit_id=budget
        )
        await limits.backend.attach_limit(args)
        await graph.submit("a>b b>z")
        partition = partition_of(Subject(graph.ids["a"]))
        (held,) = await limits.driver.take(1, partition=partition)
        await limits.report(budget, tokens=10)
        await finish(limits, held)
        assert await limits.driver.take(1, partition=partition) == []
        assert await graph.states() == {"a": "completed", "b": "rate_limited", "z": "waiting_children"}
        assert await graph.flow_state() == "blocked"
        await limits.limit(budget, tokens=11)
        assert await graph.flow_state() == "running"
        (held,) = await limits.driver.take(1, partition=partition)
        await finish(limits, held)
        assert await graph.states() == {"a": "completed", "b": "completed", "z": "waiting"}

    async def test_what_is_not_there_admits_nobody(self, limits: Limits) -> None:
        budget, quota = BudgetId.new(), QuotaPolicyId.new()
        first, second = await limits.submit(budgets=(budget,)), await limits.submit(quotas=(quota,))
        assert await limits.driver.take(2) == []
        info = [await limits.driver.info(x) for x in (first, second)]
        assert [each.public_state for each in info] == [PublicState.RATE_LIMITED] * 2
        assert [str(each.blocking_detail) for each in info] == [
            f"check_budget {budget}: no such budget ({budget})",
            f"admit_batch q:{quota}: no such quota policy ({quota})",
        ]
