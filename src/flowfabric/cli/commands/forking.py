"""`fork`: a new execution that begins with the recorded steps of another one."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeAlias

from typer import Option

from flowfabric.cli import parsing
from flowfabric.cli.options import AsJson, Id, Url
from flowfabric.cli.running import on_store
from flowfabric.cli.show.output import Output
from flowfabric.client.fabric import Fabric
from flowfabric.client.forks import Step
from flowfabric.core.ids import ExecutionId
from flowfabric.errors import InvalidInput

FromStep: TypeAlias = Annotated[
    str | None,
    Option(
        metavar="STEP",
        help="The first step to run again: its name, or name#1 for the second of that name. Without it all records "
        "are copied.",
    ),
]
NewInput: TypeAlias = Annotated[
    str | None, Option("--input", metavar="JSON", help="Other arguments: an object by name, or a list by position.")
]
Changed: TypeAlias = Annotated[
    list[str] | None, Option(metavar="STEP=JSON", help="Another result of a recorded step. Repeatable.")
]

_NUMBERED = re.compile(r"(.+)#(\d+)")


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
