"""Whose executions a budget or quota is for, as options of its commands."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from flowfabric.client.limits import Scope

OfNamespace: TypeAlias = Annotated[str | None, typer.Option("--namespace", metavar="NAME", help="For a namespace.")]
OfLane: TypeAlias = Annotated[str | None, typer.Option("--lane", metavar="LANE", help="For a lane.")]
OfFlow: TypeAlias = Annotated[str | None, typer.Option("--flow", metavar="ID", help="For a flow.")]
OfExecution: TypeAlias = Annotated[str | None, typer.Option("--execution", metavar="ID", help="For one execution.")]
Owner: TypeAlias = Annotated[
    str | None, typer.Option("--owner", metavar="NAME", help="The namespace whose executions alone may use it.")
]


def scope(namespace: str | None, lane: str | None, flow: str | None, execution: str | None) -> Scope:
    """Those that were given."""
    found = Scope()
    if namespace is not None:
        found["namespace"] = namespace
    if lane is not None:
        found["lane"] = lane
    if flow is not None:
        found["flow"] = flow
    if execution is not None:
        found["execution"] = execution
    return found


def scope_text(scope_type: str | None, scope_id: str | None) -> str:
    return f"{scope_type} {scope_id}" if scope_type else "-"
