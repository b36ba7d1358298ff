"""`cancel`, `replay` and `retry` executions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeAlias

import typer

from flowfabric.cli.exits import exit_code
from flowfabric.cli.options import AsJson, Ids, Url
from flowfabric.cli.running import on_store
from flowfabric.cli.show.output import Output, described
from flowfabric.client.fabric import Fabric
from flowfabric.client.handle import Handle
from flowfabric.core.ids import ExecutionId
from flowfabric.errors import FlowFabricError

Reason: TypeAlias = Annotated[str, typer.Option(metavar="TEXT", help="Why; stored with the execution.")]


def cancel(ids: Ids, reason: Reason = "", url: Url = None, as_json: AsJson = False) -> None:
    """Cancel executions that have not ended."""
    _change(ids, "cancelled", lambda handle: handle.cancel(reason), url, as_json)


def replay(ids: Ids, url: Url = None, as_json: AsJson = False) -> None:
    """Run ended executions again from their beginning, without their recorded steps."""
    _change(ids, "replayed", lambda handle: handle.replay(), url, as_json)


def retry(ids: Ids, url: Url = None, as_json: AsJson = False) -> None:
    """Run failed, expired and cancelled executions again; their recorded steps are kept and not run again."""
    _change(ids, "retried", lambda handle: handle.retry(), url, as_json)


def _change(
    ids: list[str], done: str, change: Callable[[Handle[Any]], Awaitable[None]], url: str | None, as_json: bool
) -> None:
    """Change each execution; one that is refused does not stop the others. The first error decides the exit code."""

    async def body(fabric: Fabric, out: Output) -> None:
        first: FlowFabricError | None = None
        for execution_id in [ExecutionId(each) for each in ids]:
            try:
                await change(fabric.handle(execution_id))
            except FlowFabricError as error:
                first = first or error
                _tell_error(out, execution_id, error)
            else:
                _tell(out, execution_id, done)
        if first is not None:
            raise typer.Exit(exit_code(first))

    on_store(url, as_json, body)


def _tell(out: Output, execution_id: ExecutionId, done: str) -> None:
    if out.as_json:
        out.json({"execution_id": execution_id, "outcome": done})
    else:
        out.line(f"{execution_id.short} {done}")


def _tell_error(out: Output, execution_id: ExecutionId, error: FlowFabricError) -> None:
    """Print an error to stderr; as JSON every execution has its line on stdout."""
    if out.as_json:
        out.json({"execution_id": execution_id, "error": described(error)})
    else:
        out.error(error)
