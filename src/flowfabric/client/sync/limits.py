"""Budgets and quotas for code without an event loop; the methods run those of Budgets and Quotas in a portal."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from flowfabric.client.limits import Budgets, Quotas
from flowfabric.client.sync.portal import Portal

P = ParamSpec("P")
T = TypeVar("T")
Limits = TypeVar("Limits")


class _InPortal(Generic[Limits]):
    def __init__(self, portal: Portal, limits: Limits) -> None:
        self._portal = portal
        self._limits = limits


def _run(
    method: Callable[Concatenate[Limits, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_InPortal[Limits], P], T]:
    @wraps(method)
    def run(self: _InPortal[Limits], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.run(method, self._limits, *args, **kwargs)

    return run


class SyncBudgets(_InPortal[Budgets]):
    """As Budgets."""

    create = _run(Budgets.create)
    find = _run(Budgets.find)
    status = _run(Budgets.status)
    usage = _run(Budgets.usage)
    set_limits = _run(Budgets.set_limits)
    reset = _run(Budgets.reset)
    report = _run(Budgets.report)
    record_spend = _run(Budgets.record_spend)
    release = _run(Budgets.release)
    attach = _run(Budgets.attach)
    detach = _run(Budgets.detach)
    list = _run(Budgets.list)


class SyncQuotas(_InPortal[Quotas]):
    """As Quotas."""

    create = _run(Quotas.create)
    configure = _run(Quotas.configure)
    status = _run(Quotas.status)
    attach = _run(Quotas.attach)
    detach = _run(Quotas.detach)
    list = _run(Quotas.list)
