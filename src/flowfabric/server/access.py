"""Who may do what: the scope of an operation, and the namespace of what it touches."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from flowfabric.backends.http.operations import Operation, Reach, Scope
from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.forms import WAITPOINT_STEPS
from flowfabric.errors import ExecutionNotFound, FlowFabricError
from flowfabric.server.tokens import Token, check_namespace, check_scope


async def admit(operation: Operation, token: Token, args: Any, backend: EngineBackend) -> Any:
    """Let a call pass, or refuse it. Answers its arguments, narrowed to the namespaces of the token."""
    check_scope(token, operation.scope)
    if token.is_for_all:
        return args
    for each in getattr(args, "members", ()):  # of a graph, each with a namespace of its own
        check_namespace(token, each.namespace)
    match operation.reach:
        case Reach.EXECUTION:
            await check_execution(token, args.execution_id, backend)
        case Reach.FLOW:
            await check_flow(token, args.flow_id, backend)
            if joining := getattr(args, "execution_id", None):
                await check_execution(token, joining, backend)
        case Reach.NAMESPACE:
            return _narrowed(token, args)
        case Reach.STORE:
            problem = "it concerns all namespaces, so it takes a token that is for all of them"
            raise FlowFabricError(problem, code="forbidden")
    return args


async def check_execution(token: Token, execution_id: Any, backend: EngineBackend) -> None:
    """What belongs to others is as good as not there."""
    if token.is_for_all:
        return
    found = await backend.describe_execution(execution_id)
    if found is None or not token.is_for(found.namespace):
        raise ExecutionNotFound(f"{execution_id} is not there")


async def check_flow(token: Token, flow_id: Any, backend: EngineBackend) -> None:
    if token.is_for_all:
        return
    found = await backend.describe_flow(flow_id)
    if found is None or not token.is_for(found.namespace):
        raise FlowFabricError(f"{flow_id} is not there", code="flow_not_found")


def without_tokens(token: Token, page: c.ReadStepsPage) -> c.ReadStepsPage:
    """Recorded steps for who does not run them: the waitpoints among them keep their tokens to themselves (G6)."""
    if token.allows(Scope.WORK):
        return page
    steps = (replace(each, payload=b"") if each.name.startswith(WAITPOINT_STEPS) else each for each in page.steps)
    return replace(page, steps=tuple(steps))


def _narrowed(token: Token, args: Any) -> Any:
    """The namespace that the call names must be the token's; one that names none gets the token's only one."""
    if isinstance(batch := getattr(args, "batch", None), tuple):
        for each in batch:
            check_namespace(token, each.namespace)
        return args
    namespace = args.namespace
    if namespace is None:
        if len(token.namespaces) != 1:
            problem = f"name one of the token's namespaces: {', '.join(token.namespaces)}"
            raise FlowFabricError(problem, code="forbidden")
        return replace(args, namespace=token.namespaces[0])
    check_namespace(token, namespace)
    return args
