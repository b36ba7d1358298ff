"""Build the Explanation of why an execution does or does not run."""

from __future__ import annotations

from msgspec.structs import replace

from flowfabric.backends.valkey.library.records import number, optional_number, reading
from flowfabric.backends.valkey.library.tenancy import ValkeyTenancy
from flowfabric.backends.valkey.ports.limits.budgets import ValkeyBudgets
from flowfabric.backends.valkey.ports.limits.quotas import ValkeyQuotas
from flowfabric.backends.valkey.rows.attempts import failure_reason
from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId, ExecutionId, LaneId, Namespace, QuotaPolicyId, WorkerInstanceId
from flowfabric.core.states import LaneState, LifecyclePhase, StateVector
from flowfabric.errors import FlowFabricError

Facts = dict[str, str]

_UUID_LENGTH = 36


class ValkeyExplanations(ValkeyBudgets, ValkeyQuotas, ValkeyTenancy):
    """Why an execution does or does not run."""

    async def explain_execution(self, execution_id: ExecutionId) -> c.Explanation:
        fields = await self._caller.call_execution("explain_execution", execution_id)
        facts = fields.mapping(1)
        for name, kind in (("budgets", "b"), ("quotas", "q")):
            seen = await self.seen_limits(f"{kind}:{each}" for each in _ids(facts, name))
            facts[name] = ",".join(each[2:] for each in seen)
        record = await self.shown(fields.mapping(0))
        with reading("execution", execution_id):
            found = explanation(execution_id, record, facts)
        limit = facts.get("waits_for")
        return found if limit is None else await self._with_limit(found, limit)

    async def _with_limit(self, found: c.Explanation, limit: str) -> c.Explanation:
        """The limit that it waits for, which lives on another slot; left out if it does not reply."""
        kind, limit_id, key = limit[0], limit[2 : 2 + _UUID_LENGTH], limit[2 + _UUID_LENGTH :]
        try:
            if kind == "b":
                return replace(found, budget=await self.get_budget_status(BudgetId(limit_id)))
            counted_by = key.split(":", 2)[-1]  # :lane:<lane>
            return replace(found, quota=await self.get_quota_status(QuotaPolicyId(limit_id), key=counted_by))
        except FlowFabricError:
            return found


def explanation(execution_id: ExecutionId, record: Facts, facts: Facts) -> c.Explanation:
    """The facts at one moment; unknown ones are None."""
    state = StateVector.from_record(record)
    is_active = state.lifecycle_phase is LifecyclePhase.ACTIVE
    return c.Explanation(
        execution_id=execution_id,
        lane_id=LaneId(record["lane_id"]),
        namespace=Namespace(record.get("namespace") or "default"),
        state_vector=state,
        public_state=state.public_state,
        now_ms=number(facts, "now_ms"),
        created_at=number(record, "created_at"),
        blocking_detail=record.get("blocking_detail"),
        required_capabilities=tuple(filter(None, record.get("required_capabilities", "").split(","))),
        delay_until=optional_number(record, "delay_until"),
        failure_reason=failure_reason(record),
        open_dependencies=optional_number(facts, "open_dependencies") or 0,
        flow_is_cancelled="flow_obstacle" in facts,
        worker_instance_id=_worker(record, "current_worker_instance_id") if is_active else None,
        lease_expires_at=optional_number(record, "lease_expires_at"),
        granted_to=_worker(facts, "granted_to"),
        grant_expires_at=optional_number(facts, "grant_expires_at"),
        lane_state=LaneState(facts["lane_state"]),
        lane_running=optional_number(facts, "lane_running") or 0,
        lane_limit=optional_number(facts, "lane_share"),
        lane_max_concurrency=optional_number(facts, "lane_max_concurrency"),
        concurrency_key=record.get("concurrency_key"),
        key_limit=optional_number(facts, "key_limit"),
        key_running=optional_number(facts, "key_running") or 0,
        key_ahead=optional_number(facts, "key_ahead"),
        ahead=optional_number(facts, "ahead"),
        first_in_queue=ExecutionId(facts["first_in_queue"]) if "first_in_queue" in facts else None,
        budget_ids=tuple(BudgetId(each) for each in _ids(facts, "budgets")),
        quota_policy_ids=tuple(QuotaPolicyId(each) for each in _ids(facts, "quotas")),
        limit_ahead=optional_number(facts, "limit_ahead"),
        limit_look_at=optional_number(facts, "limit_look_at"),
        offered_to=_worker(facts, "offered_to"),
        offer_until=optional_number(facts, "offer_until"),
        execution_kind=record.get("execution_kind", ""),
    )


def _ids(found: Facts, name: str) -> list[str]:
    return [each for each in found.get(name, "").split(",") if each]


def _worker(found: Facts, name: str) -> WorkerInstanceId | None:
    return WorkerInstanceId(found[name]) if name in found else None
