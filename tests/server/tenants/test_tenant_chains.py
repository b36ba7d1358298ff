"""What a tenant who knew ids of another could do with them, step by step; each chain ends at its first step."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from flowfabric.backends.http.operations import Scope
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId, EdgeId, ExecutionId, FlowId, Namespace, QuotaPolicyId, ReservationId
from flowfabric.core.policy import ExecutionPolicy
from flowfabric.core.states import PublicState
from flowfabric.errors import NotFound
from tests.server.guarded import TokenFile, guarded
from tests.server.tenants.tenant_worlds import World, dump, new_execution, new_flow

OURS, THEIRS = "ours", "theirs"
WORKING = (Scope.SUBMIT, Scope.READ, Scope.WORK, Scope.OPERATE, Scope.SIGNAL)


@pytest.fixture
def topology() -> str:
    return "embedded"


@pytest.fixture
async def http(backend: ValkeyBackend, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    tokens = TokenFile(tmp_path / "tokens.json")
    tokens.add("own", WORKING, [OURS])
    tokens.add("submits", [Scope.SUBMIT], [OURS])
    async with guarded(backend, tokens) as client:
        client.headers.update(tokens.headers("own"))
        client.submits = tokens.headers("submits")  # type: ignore[attr-defined]
        yield client


@pytest.fixture
async def theirs(backend: ValkeyBackend) -> World:
    return await World(backend, THEIRS).fill()


@pytest.fixture
async def own(backend: ValkeyBackend) -> World:
    return await World(backend, OURS).fill()


def member(execution_id: str, **more: Any) -> dict[str, Any]:
    return {"execution_id": execution_id, "namespace": OURS, "lane_id": "default", "execution_kind": "kind"} | more


def code_of(answer: httpx.Response) -> str:
    return str(answer.json()["code"])


async def test_an_explanation_names_nobody_else_who_waits(http: httpx.AsyncClient, theirs: World, own: World) -> None:
    facts = (await http.get(f"/v1/executions/{own.ids['waiting']}/explanation")).json()
    assert facts["ahead"] > 0
    assert facts.get("first_in_queue") is None
    why = (await http.get(f"/v1/executions/{own.ids['waiting']}/why")).text
    assert not any(each in str(facts) + why for each in theirs.ids.values())


async def test_an_explanation_names_an_own_one_that_waits_first(
    http: httpx.AsyncClient, backend: ValkeyBackend, own: World
) -> None:
    later = await World(backend, OURS).fill()
    facts = (await http.get(f"/v1/executions/{later.ids['waiting']}/explanation")).json()
    assert ExecutionId(facts["first_in_queue"]) == own.ids["waiting"]


async def test_a_refusal_tells_no_flow_of_another(
    http: httpx.AsyncClient, backend: ValkeyBackend, theirs: World, own: World
) -> None:
    before = await dump(backend)
    joined = await http.post(f"/v1/flows/{own.ids['flow']}/members", json={"execution_id": theirs.ids["member"]})
    applied = await http.post(
        f"/v1/flows/{own.ids['flow']}/edges/apply",
        json={
            "edge_id": own.ids["edge"],
            "downstream_execution_id": theirs.ids["member2"],
            "upstream_execution_id": own.ids["member"],
        },
    )
    for answer in (joined, applied):
        assert (answer.status_code, code_of(answer)) == (404, "execution_not_found")
        assert theirs.ids["flow"] not in answer.text
    assert await dump(backend) == before


@pytest.mark.parametrize("verb", ["growth", "submit", "members", "edges"])
async def test_nobody_grows_the_flow_of_another(
    http: httpx.AsyncClient, backend: ValkeyBackend, theirs: World, own: World, verb: str
) -> None:
    flow = theirs.ids["flow"]
    edge = {
        "edge_id": EdgeId.new(),
        "upstream_execution_id": theirs.ids["member"],
        "downstream_execution_id": own.ids["new"],
    }
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "growth": (f"/v1/flows/{flow}/growth", {"members": [member(own.ids["new"])]}),
        "submit": ("/v1/flows", {"flow_id": flow, "namespace": OURS, "members": [member(own.ids["new"])]}),
        "members": (f"/v1/flows/{flow}/members", {"execution_id": own.ids["waiting"]}),
        "edges": (f"/v1/flows/{flow}/edges", edge | {"expected_graph_revision": 5}),
    }  # fmt: skip
    before = await dump(backend)
    answer = await http.post(calls[verb][0], json=calls[verb][1])
    assert answer.status_code in (404, 422), answer.text
    assert theirs.ids["member"] not in answer.text
    assert await dump(backend) == before


async def test_a_child_that_is_another_s_flow_is_not_cancelled_with_its_parent(
    http: httpx.AsyncClient, backend: ValkeyBackend, theirs: World
) -> None:
    """With the scope `submit` alone: the parent's end cancelled whatever flow it named."""
    flow_id, parent, other = new_flow(backend), new_execution(), new_execution()
    graph = {
        "flow_id": flow_id, "namespace": OURS, "failure_policy": "fail_fast",
        "members": [member(parent), member(other)], "child_flows": {parent: theirs.ids["flow"]},
    }  # fmt: skip
    answer = await http.post("/v1/flows", json=graph, headers=http.submits)  # type: ignore[attr-defined]
    assert answer.status_code == 200, answer.text
    before = theirs.part_of(await dump(backend))
    await backend.cancel_flow(c.CancelFlowArgs(flow_id=FlowId(flow_id), wait=True))
    assert await backend.get_execution_state(ExecutionId(parent)) is PublicState.CANCELLED
    assert theirs.part_of(await dump(backend)) == before
    theirs_now = await backend.describe_flow(FlowId(theirs.ids["flow"]))
    assert theirs_now is not None
    assert theirs_now.public_flow_state in (c.FlowState.OPEN, c.FlowState.RUNNING)


async def test_a_result_of_another_is_no_input(
    http: httpx.AsyncClient, backend: ValkeyBackend, theirs: World, own: World
) -> None:
    upstream = theirs.execution("running")
    done = c.CompleteExecutionArgs(execution_id=upstream, fence=theirs.fence, result_payload=b"their result")
    await backend.complete_execution(done)
    edge = {"edge_id": EdgeId.new(), "upstream_execution_id": upstream, "data_passing_ref": "stolen"}
    grown = {"members": [member(own.ids["new"])], "edges": [edge | {"downstream_execution_id": own.ids["new"]}]}
    staged = edge | {"downstream_execution_id": own.ids["member3"], "expected_graph_revision": 5}
    before = await dump(backend)
    for verb, body in (("growth", grown), ("edges", staged)):
        answer = await http.post(f"/v1/flows/{own.ids['flow']}/{verb}", json=body)
        assert code_of(answer) == "execution_not_in_flow", answer.text
    inputs = await http.get(f"/v1/executions/{upstream}/inputs")
    assert inputs.status_code == 404
    assert await dump(backend) == before


async def test_a_flow_that_fails_fast_cannot_be_failed_by_a_member_of_another(
    http: httpx.AsyncClient, backend: ValkeyBackend, theirs: World, own: World
) -> None:
    flow_id, victim = FlowId(new_flow(backend)), new_execution()
    members = (c.CreateExecutionArgs(**member(victim) | {"namespace": Namespace(THEIRS)}),)
    args = c.SubmitFlowArgs(
        flow_id=flow_id, namespace=Namespace(THEIRS), members=members, failure_policy=c.FailurePolicy.FAIL_FAST
    )
    await backend.submit_flow(args)
    failed = own.execution("running")
    await backend.fail_execution(
        c.FailExecutionArgs(execution_id=failed, fence=own.fence, failure_reason="boom", failure_category="permanent")
    )
    answer = await http.post(f"/v1/flows/{flow_id}/members", json={"execution_id": failed})
    assert code_of(answer) == "flow_not_found"
    # Nor by whoever may see both: the members of a flow are of its namespace.
    with pytest.raises(Exception, match="as of the flow"):
        await backend.add_execution_to_flow(c.AddExecutionToFlowArgs(flow_id=flow_id, execution_id=failed))
    assert await backend.get_execution_state(victim) is PublicState.WAITING


LIMITS = [
    ("budget_ids", "budget", "budget_not_found"),
    ("quota_policy_ids", "quota", "quota_policy_not_found"),
]


@pytest.mark.parametrize(("field", "name", "code"), LIMITS)
async def test_nobody_submits_on_a_limit_of_another(
    http: httpx.AsyncClient, backend: ValkeyBackend, theirs: World, own: World, field: str, name: str, code: str
) -> None:
    stores = BudgetId.new() if name == "budget" else QuotaPolicyId.new()
    if name == "budget":
        amounts = {"dimensions": ("tokens",), "hard_limits": (10,), "soft_limits": (0,)}
        await backend.create_budget(c.CreateBudgetArgs(budget_id=BudgetId(stores), **amounts))  # type: ignore[arg-type]
    else:
        await backend.create_quota_policy(
            c.CreateQuotaPolicyArgs(quota_policy_id=QuotaPolicyId(stores), max_concurrent=1)
        )
    before = await dump(backend)
    said = set()
    for limit in (theirs.ids[name], stores, str(BudgetId.new())):
        one = member(new_execution(), policy={field: [limit]})
        answer = await http.put("/v1/executions", json=one)
        said.add((answer.status_code, code_of(answer)))
        (refused,) = (await http.post("/v1/executions/batch", json={"batch": [one]})).json()
        assert refused["error"]["code"] == code
        graph = {"flow_id": new_flow(backend), "namespace": OURS, "members": [one]}
        assert code_of(await http.post("/v1/flows", json=graph)) == code
        assert code_of(await http.post(f"/v1/flows/{own.ids['flow']}/growth", json={"members": [one]})) == code
    assert said == {(404, code)}
    assert await dump(backend) == before
    mine = member(own.ids["new"], policy={field: [own.ids[name]]})
    assert (await http.put("/v1/executions", json=mine)).status_code == 200


async def test_a_budget_of_another_is_not_spent_from_an_execution(
    backend: ValkeyBackend, theirs: World, own: World
) -> None:
    """Not even by a worker, which may see all: the budget itself looks at the namespace of the execution."""
    spend: dict[str, Any] = {
        "budget_id": BudgetId(theirs.ids["budget"]),
        "execution_id": own.execution("running"),
        "dimensions": ("tokens",),
        "namespace": Namespace(OURS),
    }
    held = spend | {"reservation_id": ReservationId.new(), "amounts": (5,)}
    before = theirs.part_of(await dump(backend))
    with pytest.raises(NotFound):
        await backend.report_usage_and_check(c.ReportUsageArgs(**spend, deltas=(5,)))
    with pytest.raises(NotFound):
        await backend.record_spend(c.RecordSpendArgs(**spend, deltas=(5,)))
    with pytest.raises(NotFound):
        await backend.settle_reservation(c.SettleReservationArgs(**held))
    del held["namespace"]  # the lease tells whose execution it is
    with pytest.raises(NotFound):
        await backend.reserve_budget(c.ReserveBudgetArgs(**held, fence=own.fence))
    assert theirs.part_of(await dump(backend)) == before


@pytest.mark.parametrize(("field", "name", "code"), LIMITS)
async def test_an_execution_is_not_admitted_by_a_limit_of_another(
    backend: ValkeyBackend, theirs: World, own: World, field: str, name: str, code: str
) -> None:
    """Whoever may see all can submit it; it waits, as for a limit that is not there, and takes nothing of theirs."""
    args = c.CreateExecutionArgs(**member(own.ids["new"], policy=ExecutionPolicy(**{field: (theirs.ids[name],)})))  # type: ignore[arg-type]
    await backend.create_execution(args)
    before = theirs.part_of(await dump(backend))
    with pytest.raises(NotFound) as refused:
        await backend.issue_grant_and_claim(
            c.IssueGrantAndClaimArgs(
                execution_id=args.execution_id,
                worker_id="w",  # type: ignore[arg-type]
                worker_instance_id="w-1",  # type: ignore[arg-type]
                lane_id="default",  # type: ignore[arg-type]
                lease_id=own.fence.lease_id,
                lease_ttl_ms=30_000,
                attempt_id=own.fence.attempt_id,
            )
        )
    assert refused.value.code == code
    after = {key: value for key, value in (await dump(backend)).items() if b":foreign:" not in key}
    assert theirs.part_of(after) == before  # nor does it stand in the line of those who wait for it


async def test_an_explanation_tells_no_limit_of_another(
    http: httpx.AsyncClient, backend: ValkeyBackend, own: World
) -> None:
    """The store's own budget of the lane holds it back: that is told, and neither its id nor its numbers."""
    budget = BudgetId.new()
    await backend.create_budget(
        c.CreateBudgetArgs(
            budget_id=budget,
            dimensions=("tokens",),
            hard_limits=(10,),
            soft_limits=(0,),
            scope_type=c.LimitScope.LANE,
            scope_id="default",
        )
    )
    spent = c.RecordSpendArgs(budget_id=budget, dimensions=("tokens",), deltas=(77,))
    await backend.record_spend(spent)
    claims = {"worker_id": "w", "worker_instance_id": "w-1", "lease_id": own.fence.lease_id, "lease_ttl_ms": 30_000}
    claim = claims | {"lane_id": "default", "attempt_id": own.fence.attempt_id}
    await http.post(f"/v1/executions/{own.ids['waiting']}/grant-and-claim", json=claim)
    for path in ("", "/info", "/explanation", "/why"):
        answer = await http.get(f"/v1/executions/{own.ids['waiting']}{path}")
        assert answer.status_code == 200
        assert budget not in answer.text
        assert "77" not in answer.json().get("blocking_detail", "")
    whole = await backend.explain_execution(own.execution("waiting"))
    assert whole.budget_ids == (budget,)


async def test_an_id_of_another_cannot_be_told_from_the_answer_of_a_submit(
    http: httpx.AsyncClient, backend: ValkeyBackend, theirs: World
) -> None:
    before = await dump(backend)
    for name in ("waiting", "running"):
        answer = await http.put("/v1/executions", json=member(theirs.ids[name]))
        assert answer.status_code == 422
        assert "duplicate" not in answer.text
        assert answer.json()["details"] == {"field": "execution_id"}
    assert await dump(backend) == before


async def test_keys_of_another_are_nobody_else_s(
    http: httpx.AsyncClient, backend: ValkeyBackend, theirs: World
) -> None:
    """Idempotency and concurrency keys are of a namespace: the same text is another key in another one."""
    await backend.create_execution(theirs.created("new", idempotency_key="order-1", concurrency_key="customer-1"))
    mine = member(ExecutionId(new_execution()), idempotency_key="order-1", concurrency_key="customer-1")
    answer = (await http.put("/v1/executions", json=mine)).json()
    assert (answer["outcome"], answer["public_state"]) == ("created", "waiting")
    task = {"task": "t", "idempotency_key": "order-1"}
    assert (await http.post("/v1/executions", json=task)).json()["outcome"] in ("created", "duplicate")


async def test_streams_of_another_are_not_there(http: httpx.AsyncClient, theirs: World) -> None:
    for path in (f"executions/{theirs.ids['running']}/events", f"executions/{theirs.ids['running']}/stream"):
        assert (await http.get(f"/v1/{path}")).status_code == 404
    assert (await http.get(f"/v1/flows/{theirs.ids['flow']}/events")).status_code == 404
