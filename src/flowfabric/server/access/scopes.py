"""Access rules: the scope of an operation, and the namespaces that its arguments may name.

Records are not looked up here: each call carries the namespaces of its token, and the step in the store is
limited to them (`Service.store`).
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from flowfabric.backends.http.operations import Operation, Reach, Scope
from flowfabric.core import contracts as c
from flowfabric.core.forms import WAITPOINT_STEPS
from flowfabric.core.ids import Namespace
from flowfabric.errors import FlowFabricError
from flowfabric.server.access.tokens import Token, check_namespace, check_scope


def enter(operation: Operation, token: Token) -> None:
    """Admit a call, or refuse it before its body is read."""
    if operation.reach is Reach.STORE:
        check_store(token)


def check_hold(operation: Operation, token: Token, args: Any) -> None:
    """A worker's token cancels what its worker holds: the call carries the fence of a lease."""
    if operation.port == "cancel_execution" and args.fence is None:
        check_scope(token, operation.scope)


def narrowed(operation: Operation, token: Token, args: Any) -> Any:
    """The arguments, limited to the namespaces of the token; a list without one uses the token's only namespace."""
    if token.is_for_all or operation.reach is Reach.EXECUTION:
        return args
    for each in (*getattr(args, "batch", ()), *getattr(args, "members", ())):
        check_namespace(token, each.namespace)
    return _of_namespace(token, args) if "namespace" in args.__struct_fields__ else args


def check_store(token: Token) -> None:
    """Operations on all namespaces need a token for all namespaces."""
    if not token.is_for_all:
        problem = "it concerns all namespaces; use a token for all namespaces"
        raise FlowFabricError(problem, code="forbidden")


def without_tokens(token: Token, page: c.ReadStepsPage) -> c.ReadStepsPage:
    """Recorded steps for readers: the tokens of waitpoints are left out (G6)."""
    if token.allows(Scope.WORK):
        return page
    steps = (replace(each, payload=b"") if each.name.startswith(WAITPOINT_STEPS) else each for each in page.steps)
    return replace(page, steps=tuple(steps))


def _of_namespace(token: Token, args: Any) -> Any:
    if args.namespace is not None:
        check_namespace(token, args.namespace)
        return args
    if len(token.namespaces) != 1:
        problem = f"name one of the token's namespaces: {', '.join(token.namespaces)}"
        raise FlowFabricError(problem, code="forbidden")
    return replace(args, namespace=Namespace(token.namespaces[0]))
