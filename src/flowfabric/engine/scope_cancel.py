"""Cancel the executions of a budget's scope, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId, ExecutionId, FlowId, LaneId, Namespace
from flowfabric.core.states import AttemptState, PublicState
from flowfabric.engine.service import Surroundings
from flowfabric.errors import Conflict, NotFound

_PENDING: Final = (
    PublicState.WAITING,
    PublicState.DELAYED,
    PublicState.RATE_LIMITED,
    PublicState.WAITING_CHILDREN,
)
_RUNNING: Final = (PublicState.ACTIVE, PublicState.SUSPENDED, PublicState.RESUMABLE)
_NOT_STARTED: Final = (AttemptState.NONE, AttemptState.PENDING_FIRST_ATTEMPT)
_CANCELLING: Final = (c.OnHardLimit.CANCEL_PENDING, c.OnHardLimit.CANCEL_ALL)


@dataclass
class _Walk:
    """Progress: the states that are left, and the cursor in the first of them."""

    states: list[PublicState]
    cursor: str | None = None


class ScopeCancel:
    """Cancels a scope; a walk that exceeds its deadline continues in the next call."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._walks: dict[BudgetId, _Walk] = {}

    async def cancel(self, budget: c.BudgetStatus, deadline_ms: float) -> bool:
        """Apply the budget's policy to the executions of its scope; return whether that is finished."""
        if budget.on_hard_limit not in _CANCELLING or not budget.scope_type:
            return True
        pending_only = budget.on_hard_limit == c.OnHardLimit.CANCEL_PENDING
        match c.LimitScope(budget.scope_type):
            case c.LimitScope.EXECUTION:
                await self._cancel(ExecutionId(budget.scope_id), pending_only, _reason(budget))
            case c.LimitScope.FLOW:
                await self._cancel_flow(budget, pending_only)
            case _:
                return await self._walk(budget, pending_only, deadline_ms)
        return True

    async def _cancel_flow(self, budget: c.BudgetStatus, pending_only: bool) -> None:
        policy = c.CancellationPolicy.CANCEL_PENDING if pending_only else c.CancellationPolicy.CANCEL_ALL
        args = c.CancelFlowArgs(flow_id=FlowId(budget.scope_id), reason=_reason(budget), cancellation_policy=policy)
        with suppress(Conflict, NotFound):  # it has already ended
            await self._around.backend.cancel_flow(args)

    async def _walk(self, budget: c.BudgetStatus, pending_only: bool, deadline_ms: float) -> bool:
        states = _PENDING if pending_only else (*_PENDING, *_RUNNING)
        walk = self._walks.setdefault(budget.budget_id, _Walk(list(states)))
        while walk.states:
            for each in await self._page(budget, walk):
                await self._cancel(each.execution_id, pending_only, _reason(budget))
            if walk.states and self._around.timer.now_ms() >= deadline_ms:
                return False
        del self._walks[budget.budget_id]
        return True

    async def _page(self, budget: c.BudgetStatus, walk: _Walk) -> Sequence[c.ExecutionSummary]:
        is_lane = budget.scope_type == c.LimitScope.LANE
        page = await self._around.backend.list_executions(
            c.ListExecutionsArgs(
                lane_id=LaneId(budget.scope_id) if is_lane else None,
                namespace=None if is_lane else Namespace(budget.scope_id),
                public_state=walk.states[0],
                cursor=walk.cursor,
                limit=self._around.settings.batch,
            )
        )
        walk.cursor = page.next_cursor
        if page.next_cursor is None:
            walk.states.pop(0)
        return page.executions

    async def _cancel(self, execution_id: ExecutionId, pending_only: bool, reason: str) -> None:
        backend = self._around.backend
        with suppress(Conflict, NotFound):  # it has already ended
            if pending_only:
                state = (await backend.explain_execution(execution_id)).state_vector
                if state.attempt_state not in _NOT_STARTED:
                    return
            source = c.CancelSource.OPERATOR_OVERRIDE
            await backend.cancel_execution(
                c.CancelExecutionArgs(execution_id=execution_id, reason=reason, source=source)
            )


def _reason(budget: c.BudgetStatus) -> str:
    return f"budget {budget.budget_id} is breached in {budget.last_breach_dim}"
