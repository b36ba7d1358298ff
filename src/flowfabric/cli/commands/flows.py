"""`flow`: which flows there are, how they stand, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import msgspec
import typer

from flowfabric.cli.options import AsJson, Cursor, FlowArgument, Limit, NamespaceFilter, Url
from flowfabric.cli.parsing import age_text, span_text, time_text
from flowfabric.cli.running import on_store, options_go_behind
from flowfabric.cli.show.flow_tree import print_tree, watch
from flowfabric.cli.show.output import Output, Styled, coloured
from flowfabric.cli.show.paging import collected
from flowfabric.client.fabric import Fabric
from flowfabric.client.flows.view import FlowView
from flowfabric.core import contracts as c
from flowfabric.errors import InvalidInput

Name: TypeAlias = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Only flows of this name.")]
Status: TypeAlias = Annotated[
    c.FlowStatus | None,
    typer.Option("--status", metavar="STATUS", help="Only those: active, completed, failed or cancelled."),
]
Watch: TypeAlias = Annotated[bool, typer.Option("--watch", help="Draw it anew until it has ended.")]
AsMermaid: TypeAlias = Annotated[bool, typer.Option("--mermaid", help="Print it for a Markdown page.")]
AsDot: TypeAlias = Annotated[bool, typer.Option("--dot", help="Print it for Graphviz.")]
Reason: TypeAlias = Annotated[str, typer.Option(metavar="TEXT", help="Why; it is kept with the flow.")]
Policy: TypeAlias = Annotated[
    c.CancellationPolicy,
    typer.Option(
        "--policy",
        metavar="POLICY",
        help="cancel_all ends all members, cancel_pending all but the running ones, flow_only none.",
    ),
]
Wait: TypeAlias = Annotated[bool, typer.Option("--wait", help="Until all members were reached.")]

app = typer.Typer(help="List, show and draw flows; cancel or replay one.", invoke_without_command=True)


@app.callback()
def flow(ctx: typer.Context, url: Url = None, as_json: AsJson = False) -> None:
    """List, show and draw flows; cancel or replay one."""
    if ctx.invoked_subcommand is None:
        ls(url=url, as_json=as_json)
    else:
        options_go_behind(f"flow {ctx.invoked_subcommand}", url, as_json)


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
        async def one(cursor: str | None, limit: int) -> tuple[Sequence[c.FlowSummary], str | None]:
            page = await fabric.flows(name=name, namespace=namespace, status=status, cursor=cursor, limit=limit)
            return page.flows, page.next_cursor

        found, next_cursor = await collected(one, cursor=cursor, limit=limit)
        _print_page(c.ListFlowsPage(flows=tuple(found), next_cursor=next_cursor), out)

    on_store(url, as_json, body)


def _print_page(page: c.ListFlowsPage, out: Output) -> None:
    if out.as_json:
        out.json(page)
        return
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
    out.table(("ID", "NAME", "STATE", "MEMBERS", "AGE", "TOOK"), rows)
    if page.next_cursor is not None:
        out.line(Styled(f"there may be more: --cursor {page.next_cursor}", "dim"))


@app.command()
def show(flow_id: FlowArgument, url: Url = None, as_json: AsJson = False) -> None:
    """Show one flow: its state, its members with their ids, and the path that took longest."""

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
    """Draw one flow; each member stands below the last one that all ways to it lead through."""

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
    """Cancel a flow: from then on none of its members starts."""

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
    c.FlowCancellationScheduled: "cancelled; its members follow",
    c.FlowPartiallyCancelled: "cancelled, but some members cannot be read",
}


@app.command()
def replay(flow_id: FlowArgument, url: Url = None, as_json: AsJson = False) -> None:
    """Run once more what failed in a flow, and what was skipped because of that."""

    async def body(fabric: Fabric, out: Output) -> None:
        replayed = await fabric.flow_handle(flow_id).replay()
        if out.as_json:
            out.json({"flow_id": flow_id, "replayed": replayed})
        elif not replayed:
            out.line(f"{flow_id} has no member that failed")
        for execution_id in () if out.as_json else replayed:
            out.line(f"{execution_id} replayed")

    on_store(url, as_json, body)


def _as_object(view: FlowView) -> dict[str, Any]:
    """All of it by the names of the contracts, with what follows from it."""
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
    out.fields(
        [
            ("id", flow.flow_id),
            ("name", flow.flow_kind),
            ("state", coloured(flow.public_flow_state)),
            ("members", f"{flow.node_count}, {flow.left_count} not ended" + (f"; {counts}" if counts else "")),
            ("failures", f"policy {flow.failure_policy}; not taken: {flow.failed_execution_id or 'none'}"),
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
