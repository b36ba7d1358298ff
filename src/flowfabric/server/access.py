"""Who may do what: the scope of an operation, and the namespace of what it touches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from flowfabric.backends.http.operations import Operation, Reach, Scope
from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.forms import WAITPOINT_STEPS
from flowfabric.core.ids import ExecutionId, FlowId, Namespace
from flowfabric.errors import ExecutionNotFound, FlowFabricError
from flowfabric.server.tokens import Token, check_namespace


async def enter(operation: Operation, token: Token, named: Mapping[str, str], backend: EngineBackend) -> None:
    """Let a call pass to what its address names, or refuse it before anything else of it is read."""
    if token.is_for_all:
        return
    match operation.reach:
        case Reach.EXECUTION:
            await check_execution(token, ExecutionId(named["execution_id"]), backend)
        case Reach.FLOW:
            await check_flow(token, FlowId(named["flow_id"]), backend)
        case Reach.STORE:
            check_store(token)


async def narrowed(operation: Operation, token: Token, args: Any, backend: EngineBackend) -> Any:
    """The arguments, which must keep to the namespaces of the token; a list that names none is of its only one."""
    if token.is_for_all or operation.reach is Reach.EXECUTION:
        return args
    for each in (*getattr(args, "batch", ()), *getattr(args, "members", ())):
        check_namespace(token, each.namespace)
    for name in ("execution_id", "parent_execution_id"):
        if "flow_id" in args.__struct_fields__ and (execution_id := getattr(args, name, None)) is not None:
            await check_execution(token, execution_id, backend)
    return _of_namespace(token, args) if "namespace" in args.__struct_fields__ else args


def check_store(token: Token) -> None:
    """What concerns all namespaces is for those who may see all of them."""
    if not token.is_for_all:
        problem = "it concerns all namespaces, so it takes a token that is for all of them"
        raise FlowFabricError(problem, code="forbidden")


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


def _of_namespace(token: Token, args: Any) -> Any:
    if args.namespace is not None:
        check_namespace(token, args.namespace)
        return args
    if len(token.namespaces) != 1:
        problem = f"name one of the token's namespaces: {', '.join(token.namespaces)}"
        raise FlowFabricError(problem, code="forbidden")
    return replace(args, namespace=Namespace(token.namespaces[0]))
