"""`cancel`, `retry`, `replay` and `fork` executions."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeAlias

import typer

from flowfabric.cli import parsing
from flowfabric.cli.exits import exit_code
from flowfabric.cli.options import AsJson, Id, Ids, Url
from flowfabric.cli.running import on_store
from flowfabric.cli.show.output import Output, described
from flowfabric.client.fabric import Fabric
from flowfabric.client.forks import Step
from flowfabric.client.handle import Handle
from flowfabric.core.ids import ExecutionId
from flowfabric.errors import FlowFabricError, InvalidInput

Reason: TypeAlias = Annotated[str, typer.Option(metavar="TEXT", help="Why; stored with the execution.")]
FromStep: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="STEP",
        help="The first step to run again: its name, or name#1 for the second of that name. Without it all records "
        "are copied.",
    ),
]
NewInput: TypeAlias = Annotated[
    str | None,
    typer.Option("--input", metavar="JSON", help="Other arguments: an object by name, or a list by position."),
]
Changed: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="STEP=JSON", help="Another result of a recorded step. Repeatable.")
]

_NUMBERED = re.compile(r"(.+)#(\d+)")


def cancel(ids: Ids, reason: Reason = "", url: Url = None, as_json: AsJson = False) -> None:
    """Cancel executions that have not ended."""
    _change(ids, "cancelled", lambda handle: handle.cancel(reason), url, as_json)


def replay(ids: Ids, url: Url = None, as_json: AsJson = False) -> None:
    """Run ended executions again from their beginning, without their recorded steps."""
    _change(ids, "replayed", lambda handle: handle.replay(), url, as_json)


def retry(ids: Ids, url: Url = None, as_json: AsJson = False) -> None:
    """Run failed, expired and cancelled executions again; their recorded steps are kept and not run again."""
    _change(ids, "retried", lambda handle: handle.retry(), url, as_json)


def fork(
    execution_id: Id,
    from_step: FromStep = None,
    new_input: NewInput = None,
    changed: Changed = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Make a new execution that begins with the recorded steps of another one, up to a step."""

    async def body(fabric: Fabric, out: Output) -> None:
        source = ExecutionId(execution_id)
        given = None if new_input is None else parsing.json_value("--input", new_input)
        results = dict(_result(each) for each in changed or ())
        at = None if from_step is None else _step(from_step)
        made = await fabric.handle(source).fork(at, input=given, changed=results)
        if out.as_json:
            out.json({"execution_id": made.id, "forked_from": source})
        else:
            out.line(made.id)

    on_store(url, as_json, body)


def _step(text: str) -> Step:
    found = _NUMBERED.fullmatch(text)
    return (found[1], int(found[2])) if found else text


def _result(text: str) -> tuple[Step, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidInput("--changed", text, "must be STEP=JSON")
    return _step(name), parsing.json_value("--changed", value)


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
