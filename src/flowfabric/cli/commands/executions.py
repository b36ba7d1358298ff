"""`ls`, `show` and `explain`: list and inspect executions."""

from __future__ import annotations

import base64
from functools import partial
from typing import Annotated, Any, TypeAlias

import msgspec
from typer import Option

from flowfabric.cli import parsing
from flowfabric.cli.commands.suspensions import open_waitpoints, print_waitpoints
from flowfabric.cli.options import AsJson, Cursor, Id, KindFilter, LaneFilter, Limit, NamespaceFilter, Url
from flowfabric.cli.parsing import age_text, span_text, time_text
from flowfabric.cli.running import on_store
from flowfabric.cli.show.output import Cell, Output, Styled, coloured
from flowfabric.cli.show.paging import all_workers, collected, print_page
from flowfabric.cli.show.unknown_names import warn_of_unknown_lane
from flowfabric.client.fabric import Fabric
from flowfabric.client.tasks.payloads import ENCODING, as_json, to_json
from flowfabric.core import contracts as c
from flowfabric.core.explain import explain as sentence_of
from flowfabric.core.failure_lines import failure_lines
from flowfabric.core.ids import ExecutionId
from flowfabric.core.rules.unknown_tasks import sentence, waits_for_task
from flowfabric.core.states import PublicState
from flowfabric.errors import ExecutionNotFound, FlowFabricError

StateFilter: TypeAlias = Annotated[
    PublicState | None, Option("--state", metavar="STATE", help=f"Only in this state: {', '.join(PublicState)}.")
]
TagFilter: TypeAlias = Annotated[
    list[str] | None, Option("--tag", metavar="KEY=VALUE", help="Only with this tag, like team=red. Repeatable.")
]
Since: TypeAlias = Annotated[
    str | None, Option(metavar="TIME", help="Created at or after this time: 2030-01-31T12:00, or 2h for two hours ago.")
]
Until: TypeAlias = Annotated[str | None, Option(metavar="TIME", help="Created before this time, in the same forms.")]
OldestFirst: TypeAlias = Annotated[bool, Option("--oldest-first", help="List the oldest first.")]
WithInput: TypeAlias = Annotated[bool, Option("--input", help="Include the arguments.")]


def ls(
    namespace: NamespaceFilter = None,
    lane: LaneFilter = None,
    kind: KindFilter = None,
    state: StateFilter = None,
    tag: TagFilter = None,
    since: Since = None,
    until: Until = None,
    oldest_first: OldestFirst = False,
    limit: Limit = 50,
    cursor: Cursor = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List executions, the newest first."""

    async def body(fabric: Fabric, out: Output) -> None:
        read = partial(
            fabric.list,
            task=kind,
            lane=lane,
            namespace=namespace,
            state=state,
            tags=parsing.tags("--tag", tag or ()),
            created_since=parsing.moment("--since", since),
            created_until=parsing.moment("--until", until),
            order=c.ListOrder.OLDEST if oldest_first else c.ListOrder.NEWEST,
        )
        found, next_cursor = await collected(read, lambda page: page.executions, cursor=cursor, limit=limit)
        page = c.ListExecutionsPage(executions=found, next_cursor=next_cursor)
        _print_page(page, out, [] if out.as_json else await _live_workers(fabric))
        if not found:
            await warn_of_unknown_lane(fabric, lane, out)

    on_store(url, as_json, body)


async def _live_workers(fabric: Fabric) -> list[c.WorkerInfo]:
    """None for a token that may not list them."""
    try:
        return await all_workers(fabric)
    except FlowFabricError:
        return []


def _print_page(page: c.ListExecutionsPage, out: Output, workers: list[c.WorkerInfo]) -> None:
    rows = [
        (
            each.execution_id,
            each.execution_kind,
            each.lane_id,
            coloured(each.public_state),
            str(each.priority),
            age_text(each.created_at),
        )
        for each in page.executions
    ]
    print_page(page, ("ID", "KIND", "LANE", "STATE", "PRIORITY", "AGE"), rows, out)
    unknown = {(each.execution_kind, each.lane_id) for each in page.executions if waits_for_task(each, workers)}
    for kind, lane in sorted(unknown):
        out.note(f"flowfabric: {sentence(kind, lane, workers)}")


def show(execution_id: Id, with_input: WithInput = False, url: Url = None, as_json: AsJson = False) -> None:
    """Show one execution: state, attempts, result, tags, open waitpoints, and why it is in this state."""

    async def body(fabric: Fabric, out: Output) -> None:
        found = await _found(fabric, ExecutionId(execution_id), with_input)
        if out.as_json:
            out.json(found)
        else:
            _print_found(found, out)

    on_store(url, as_json, body)


async def _found(fabric: Fabric, execution_id: ExecutionId, with_input: bool) -> dict[str, Any]:
    """All facts about an execution, by the names of the contracts."""
    handle = fabric.handle(execution_id)
    snapshot = await handle.describe()
    info = await fabric.backend.get_execution(execution_id)
    if info is None:
        raise ExecutionNotFound(f"{execution_id}: no such execution", execution_id=execution_id)
    result = await handle.raw_result()
    found = {
        **msgspec.structs.asdict(info),
        **msgspec.structs.asdict(snapshot),
        "attempts": await handle.attempts(),
        "waitpoints": await open_waitpoints(handle),
        "result": None if result is None else _content(result.payload, result.encoding),
        "explanation": await explained(fabric, execution_id),
    }
    if with_input:
        context = await fabric.backend.read_execution_context(execution_id)
        found["input"] = _content(context.input_payload, context.payload_encoding)
    return found


def _content(payload: bytes, encoding: str | None) -> dict[str, Any]:
    """A payload: its value if it is JSON, else base64."""
    if encoding == ENCODING and payload:
        return {"encoding": encoding, "value": msgspec.Raw(payload)}
    if encoding is None and payload and (text := as_json(payload)) is not None:
        return {"encoding": None, "value": msgspec.Raw(text)}
    return {"encoding": encoding, "base64": base64.b64encode(payload).decode()}


def _print_found(found: dict[str, Any], out: Output) -> None:
    pairs: list[tuple[str, Cell]] = [
        ("id", found["execution_id"]),
        ("task", found["execution_kind"]),
        ("state", coloured(found["public_state"])),
        ("why", found["explanation"]),
        ("lane", found["lane_id"]),
        ("namespace", found["namespace"]),
        ("priority", str(found["priority"])),
        ("created", time_text(found["created_at"])),
        ("started", time_text(found["started_at"])),
        ("ended", time_text(found["completed_at"])),
    ]
    if found["flow_id"]:
        pairs.append(("flow", found["flow_id"]))
    pairs += [(f"tag {key}", value) for key, value in found["tags"].items()]
    if found["progress_pct"] is not None or found["progress_message"]:
        pairs.append(("progress", f"{found['progress_pct'] or 0}% {found['progress_message'] or ''}".strip()))
    pairs += [(name, _shown(found[name])) for name in ("input", "result") if found.get(name)]
    out.fields(pairs)
    if found["attempts"]:
        out.line()
        _print_attempts(found["attempts"], out)
    if found["waitpoints"]:
        out.line()
        print_waitpoints(found["waitpoints"], out)


def _shown(content: dict[str, Any]) -> str:
    return to_json(content["value"]).decode() if "value" in content else f"base64 {content['base64']}"


def _print_attempts(attempts: list[c.AttemptRecord], out: Output) -> None:
    rows = []
    for each in attempts:
        took = span_text(each.ended_at - each.started_at) if each.ended_at and each.started_at else "-"
        why = ": ".join(part for part in (each.failure_category, each.failure_reason) if part) or "-"
        worker = each.worker_instance_id or "-"
        rows.append(
            (str(each.attempt_index), each.attempt_type, each.state, time_text(each.started_at), took, worker, why)
        )
    out.table(("ATTEMPT", "TYPE", "STATE", "STARTED", "TOOK", "WORKER", "FAILURE"), rows)
    for each in attempts:
        if each.failure_detail is not None:
            out.line()
            out.line(Styled(f"attempt {each.attempt_index} raised", "bold"))
            for line in failure_lines(each.failure_detail):
                out.line(f"  {line}")


def explain(execution_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Explain why an execution does not run, and what would change that."""

    async def body(fabric: Fabric, out: Output) -> None:
        facts = await fabric.explain(execution_id)
        sentence = sentence_of(facts, await all_workers(fabric))
        if out.as_json:
            out.json({"execution_id": facts.execution_id, "explanation": sentence, "facts": facts})
        else:
            out.line(f"{facts.execution_id.short} {sentence}")

    on_store(url, as_json, body)


async def explained(fabric: Fabric, execution_id: ExecutionId) -> str:
    """Why it is in its state, as a sentence whose subject is the execution."""
    return sentence_of(await fabric.explain(execution_id), await all_workers(fabric))
