"""`flow`: list, show, draw, cancel, retry and replay flows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, TypeAlias

import msgspec
import typer

from flowfabric.cli.options import AsJson, Cursor, FlowArgument, Limit, NamespaceFilter, Url
from flowfabric.cli.parsing import age_text, span_text, time_text
from flowfabric.cli.running import list_by_default, on_store
from flowfabric.cli.show.flow_tree import print_tree, watch
from flowfabric.cli.show.output import Output, coloured
from flowfabric.cli.show.paging import collected, print_page
from flowfabric.client.fabric import Fabric
from flowfabric.client.flows.handle import FlowHandle
from flowfabric.client.flows.view import FlowView
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.errors import InvalidInput

Name: TypeAlias = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Only flows with this name.")]
Status: TypeAlias = Annotated[
    c.FlowStatus | None,
    typer.Option(
        "--status", metavar="STATUS", help="Only flows with this status: active, completed, failed or cancelled."
    ),
]
Watch: TypeAlias = Annotated[bool, typer.Option("--watch", help="Redraw it until the flow ends.")]
AsMermaid: TypeAlias = Annotated[bool, typer.Option("--mermaid", help="Print it as Mermaid, for a Markdown page.")]
AsDot: TypeAlias = Annotated[bool, typer.Option("--dot", help="Print it as DOT, for Graphviz.")]
Reason: TypeAlias = Annotated[str, typer.Option(metavar="TEXT", help="Why; stored with the flow.")]
Policy: TypeAlias = Annotated[
    c.CancellationPolicy,
    typer.Option(
        "--policy",
        metavar="POLICY",
        help="cancel_all cancels all members, cancel_pending all but running ones, flow_only none.",
    ),
]
Wait: TypeAlias = Annotated[bool, typer.Option("--wait", help="Wait until every member is cancelled.")]

app = typer.Typer(help="List, show and draw flows; cancel, retry or replay one.", invoke_without_command=True)


@app.callback()
def flow(ctx: typer.Context, url: Url = None, as_json: AsJson = False) -> None:
    """List, show and draw flows; cancel, retry or replay one."""
    list_by_default(ctx, url, as_json, lambda: ls(url=url, as_json=as_json))


@app.command()
def ls(
    name: Name = None,
    namespace: NamespaceFilter = None,
    status: Status = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List flows, the newest first."""

    async def body(fabric: Fabric, out: Output) -> None:
        read = partial(fabric.flows, name=name, namespace=namespace, status=status)
        found, next_cursor = await collected(read, lambda page: page.flows, cursor=cursor, limit=limit)
        _print_page(c.ListFlowsPage(flows=found, next_cursor=next_cursor), out)

    on_store(url, as_json, body)


def _print_page(page: c.ListFlowsPage, out: Output) -> None:
    rows = [
        (
            each.flow_id,
            each.flow_kind,
            coloured(each.public_flow_state),
            str(each.node_count),
            age_text(each.created_at),
            "-" if each.ended_at is None else span_text(each.ended_at - each.created_at),
        )
        for each in page.flows
    ]
    print_page(page, ("ID", "NAME", "STATE", "MEMBERS", "AGE", "TOOK"), rows, out)


@app.command()
def show(flow_id: FlowArgument, url: Url = None, as_json: AsJson = False) -> None:
    """Show one flow: its state, its members with their ids, and the longest path."""

    async def body(fabric: Fabric, out: Output) -> None:
        view = await fabric.flow_handle(flow_id).view()
        if out.as_json:
            out.json(_as_object(view))
        else:
            _print_view(view, out)

    on_store(url, as_json, body)


@app.command()
def tree(
    flow_id: FlowArgument,
    again: Watch = False,
    as_mermaid: AsMermaid = False,
    as_dot: AsDot = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Draw one flow as a tree; a member is below the last member that all paths to it share."""

    async def body(fabric: Fabric, out: Output) -> None:
        if sum((again, as_mermaid, as_dot, as_json)) > 1:
            raise InvalidInput("tree", flow_id, "takes one of --watch, --mermaid, --dot and --json")
        handle = fabric.flow_handle(flow_id)
        if again:
            await watch(handle, out)
            return
        view = await handle.view()
        if as_json:
            out.json(_as_object(view))
        elif as_mermaid or as_dot:
            out.line(view.mermaid() if as_mermaid else view.dot())
        else:
            print_tree(view, out)

    on_store(url, as_json, body)


@app.command()
def cancel(
    flow_id: FlowArgument,
    reason: Reason = "",
    policy: Policy = c.CancellationPolicy.CANCEL_ALL,
    wait: Wait = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a flow: none of its members starts from then on."""

    async def body(fabric: Fabric, out: Output) -> None:
        result = await fabric.flow_handle(flow_id).cancel(reason, policy=policy, wait=wait)
        if out.as_json:
            outcome = result.__struct_config__.tag
            out.json({"flow_id": flow_id, "outcome": outcome, **msgspec.structs.asdict(result)})
        else:
            out.line(f"{flow_id} {_CANCELLED[type(result)]}")

    on_store(url, as_json, body)


_CANCELLED = {
    c.FlowCancelled: "cancelled",
    c.FlowCancellationScheduled: "cancelled; its members are being cancelled",
    c.FlowPartiallyCancelled: "cancelled, but some members cannot be read",
}


@app.command()
def retry(flow_id: FlowArgument, url: Url = None, as_json: AsJson = False) -> None:
    """Run the failed members of a flow again with their recorded steps, and those that fell because of them."""
    _run_again(flow_id, "retried", lambda handle: handle.retry(), url, as_json)


@app.command()
def replay(flow_id: FlowArgument, url: Url = None, as_json: AsJson = False) -> None:
    """Run the failed members of a flow again from their beginning, and those that fell because of them."""
    _run_again(flow_id, "replayed", lambda handle: handle.replay(), url, as_json)


def _run_again(
    flow_id: str,
    done: str,
    change: Callable[[FlowHandle], Awaitable[list[ExecutionId]]],
    url: str | None,
    as_json: bool,
) -> None:
    async def body(fabric: Fabric, out: Output) -> None:
        again = await change(fabric.flow_handle(flow_id))
        if out.as_json:
            out.json({"flow_id": flow_id, done: again})
        elif not again:
            out.line(f"{flow_id} has no failed member")
        for execution_id in () if out.as_json else again:
            out.line(f"{execution_id.short} {done}")

    on_store(url, as_json, body)


def _as_object(view: FlowView) -> dict[str, Any]:
    """The flow, its members and edges by the names of the contracts, with the critical path and duration."""
    return {
        **msgspec.structs.asdict(view.flow),
        "members": [{"name": view.labels[each.execution_id], **msgspec.structs.asdict(each)} for each in view.members],
        "edges": view.edges,
        "critical_path": view.critical_path,
        "duration_ms": view.duration_ms,
    }


def _print_view(view: FlowView, out: Output) -> None:
    flow = view.flow
    counts = ", ".join(f"{number} {outcome}" for outcome, number in flow.ended_counts.items())
    unhandled = flow.failed_execution_id.short if flow.failed_execution_id else "none"
    out.fields(
        [
            ("id", flow.flow_id),
            ("name", flow.flow_kind),
            ("state", coloured(flow.public_flow_state)),
            ("members", f"{flow.node_count}, {flow.left_count} not ended" + (f"; {counts}" if counts else "")),
            ("failures", f"policy {flow.failure_policy}; unhandled: {unhandled}"),
            ("created", time_text(flow.created_at)),
            ("ended", time_text(flow.ended_at)),
            ("took", span_text(view.duration_ms)),
            ("longest path", " > ".join(view.labels[each] for each in view.critical_path) or "-"),
            *((f"tag {key}", value) for key, value in flow.tags.items()),
        ]
    )
    out.line()
    rows = [
        (view.labels[each.execution_id], coloured(each.public_state), _took(each), each.execution_id)
        for each in view.members
    ]
    out.table(("NAME", "STATE", "TOOK", "ID"), rows)


def _took(member: c.FlowMember) -> str:
    if member.started_at is None or member.completed_at is None:
        return "-"
    return span_text(member.completed_at - member.started_at)
