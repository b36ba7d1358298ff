"""Check tenants' access to limits before a call: limits live on other slots than the execution.

The owner of a limit never changes, so the check still holds when the call runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import FunctionCaller, at_once
from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId, QuotaPolicyId
from flowfabric.core.partition import PartitionConfig
from flowfabric.errors import FlowFabricError, InvalidInput, NotFound

_UUID_LENGTH = 36
# Shown instead of the details of a limit that the tenant may not see.
UNSEEN = "a limit of the store"


class ValkeyTenancy:
    """The limits a tenant may name. A trusted caller is not checked."""

    _caller: FunctionCaller
    partitions: PartitionConfig

    async def check_limits(self, submitted: Sequence[c.CreateExecutionArgs]) -> None:
        """Raise the error of the first limit that the caller may not name."""
        for problem in (await self.unseen_limits(submitted)).values():
            raise problem

    async def unseen_limits(self, submitted: Sequence[c.CreateExecutionArgs]) -> dict[int, FlowFabricError]:
        """The positions of limits that the caller may not name."""
        if not self._caller.is_scoped:
            return {}
        named = {at: _limits_of(args) for at, args in enumerate(submitted) if args.policy is not None}
        wanted = sorted({name for names in named.values() for name in names})
        problems = dict(zip(wanted, await at_once(map(self._problem, wanted)), strict=True))
        found = {at: [problems[name] for name in names] for at, names in named.items()}
        return {at: problem for at, all_of_it in found.items() for problem in all_of_it if problem is not None}

    async def seen_limits(self, names: Iterable[str]) -> list[str]:
        """The limits that the caller may name."""
        wanted = list(names)
        if not self._caller.is_scoped:
            return wanted
        problems = await at_once(map(self._problem, wanted))
        return [name for name, problem in zip(wanted, problems, strict=True) if problem is None]

    async def shown(self, record: dict[str, str]) -> dict[str, str]:
        """The record without details of limits that the caller may not see."""
        limit = record.get("waits_for")
        if limit is None or not self._caller.is_scoped or await self.seen_limits([limit]):
            return record
        return record | {"blocking_detail": UNSEEN}

    async def _problem(self, name: str) -> FlowFabricError | None:
        limit_id = name[2 : 2 + _UUID_LENGTH]
        try:
            if name.startswith("b:"):
                key = keys.budget(BudgetId(limit_id), self.partitions)
                await self._caller.call("describe_budget", {"budget": key}, {}, subject=limit_id)
            else:
                key = keys.quota(QuotaPolicyId(limit_id), self.partitions)
                await self._caller.call("describe_quota_policy", {"quota": key}, {}, subject=limit_id)
        except (NotFound, InvalidInput) as problem:
            return problem
        return None


def _limits_of(args: c.CreateExecutionArgs) -> list[str]:
    assert args.policy is not None
    return [f"b:{each}" for each in args.policy.budget_ids] + [f"q:{each}" for each in args.policy.quota_policy_ids]
