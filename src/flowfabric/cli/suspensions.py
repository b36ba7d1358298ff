"""`suspended`, `waitpoints`, `signal` and `resume`: executions that wait for the world outside, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

import msgspec
from typer import Argument, Option

from flowfabric.backends.ports import EngineBackend
from flowfabric.cli import parsing
from flowfabric.cli.options import AsJson, Cursor, Id, LaneFilter, Limit, Url
from flowfabric.cli.output import Output, Styled
from flowfabric.cli.paging import collected
from flowfabric.cli.parsing import age_text, time_text
from flowfabric.cli.running import on_store
from flowfabric.client.fabric import Fabric
from flowfabric.client.payloads import ENCODING
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId, SignalId, WaitpointId, WaitpointToken
from flowfabric.errors import InvalidInput

_STDIN: Final = "-"

ReasonFilter: TypeAlias = Annotated[
    c.SuspensionReasonCode | None,
    Option("--reason", metavar="REASON", help=f"Only for this reason: {', '.join(c.SuspensionReasonCode)}."),
]
Waitpoint: TypeAlias = Annotated[str, Argument(metavar="WAITPOINT", help="The waitpoint's id.", show_default=False)]
SignalName: TypeAlias = Annotated[str, Argument(metavar="NAME", help="The signal's name.", show_default=False)]
Payload: TypeAlias = Annotated[str | None, Option(metavar="JSON", help="What it says, as JSON.")]
Token: TypeAlias = Annotated[
    str | None,
    Option(metavar="TOKEN", help="The waitpoint's token, or - for stdin. By default FLOWFABRIC_WAITPOINT_TOKEN."),
]
Delay: TypeAlias = Annotated[str, Option(metavar="DURATION", help="Go on no sooner: 30s, 5m, 2h.")]


def suspended(
    lane: LaneFilter = None,
    reason: ReasonFilter = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List suspended executions, the earliest time-out first."""

    async def body(fabric: Fabric, out: Output) -> None:
        lane_id = None if lane is None else LaneId(lane)
        args = c.ListSuspendedArgs(lane_id=lane_id, reason_code=reason, cursor=cursor, limit=limit)
        _print_page(await _filled(fabric.backend, args), out)

    on_store(url, as_json, body)


async def _filled(backend: EngineBackend, args: c.ListSuspendedArgs) -> c.ListSuspendedPage:
    async def one(cursor: str | None, limit: int) -> tuple[Sequence[c.SuspendedExecutionEntry], str | None]:
        page = await backend.list_suspended(msgspec.structs.replace(args, cursor=cursor, limit=limit))
        return page.entries, page.next_cursor

    found, next_cursor = await collected(one, cursor=args.cursor, limit=args.limit)
    return c.ListSuspendedPage(entries=tuple(found), next_cursor=next_cursor)


def _print_page(page: c.ListSuspendedPage, out: Output) -> None:
    if out.as_json:
        out.json(page)
        return
    rows = [
        (
            each.execution_id,
            each.lane_id,
            each.reason,
            age_text(each.suspended_at),
            time_text(each.timeout_at),
            each.timeout_behavior or "-",
        )
        for each in page.entries
    ]
    out.table(("ID", "LANE", "REASON", "SINCE", "TIMEOUT", "THEN"), rows)
    if page.next_cursor is not None:
        out.line(Styled(f"there may be more: --cursor {page.next_cursor}", "dim"))


def waitpoints(execution_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """List the open waitpoints of an execution: what they wait for, and which secret signed their tokens."""

    async def body(fabric: Fabric, out: Output) -> None:
        found = await _open_waitpoints(fabric.backend, ExecutionId(execution_id))
        if out.as_json:
            out.json({"waitpoints": found})
        else:
            _print_waitpoints(found, out)

    on_store(url, as_json, body)


async def _open_waitpoints(backend: EngineBackend, execution_id: ExecutionId) -> list[c.PendingWaitpointInfo]:
    async def one(after: WaitpointId | None, limit: int) -> tuple[Sequence[c.PendingWaitpointInfo], WaitpointId | None]:
        args = c.ListPendingWaitpointsArgs(execution_id=execution_id, after=after, limit=limit)
        page = await backend.list_pending_waitpoints(args)
        return page.entries, page.next_cursor

    found, _ = await collected(one)
    return found


def _print_waitpoints(found: list[c.PendingWaitpointInfo], out: Output) -> None:
    rows = [
        (
            each.waitpoint_id,
            each.waitpoint_key,
            each.state,
            ",".join(each.required_signal_names) or "-",
            age_text(each.created_at),
            time_text(each.expires_at),
            each.token_kid,
            each.token_fingerprint,
        )
        for each in found
    ]
    out.table(("WAITPOINT", "KEY", "STATE", "SIGNALS", "AGE", "EXPIRES", "KID", "FINGERPRINT"), rows)


def signal(
    execution_id: Id,
    waitpoint_id: Waitpoint,
    name: SignalName,
    payload: Payload = None,
    token: Token = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Signal to a waitpoint, with its token. A token given as an option can be seen by who lists processes."""

    async def body(fabric: Fabric, out: Output) -> None:
        said = parsing.json_payload("--payload", payload)
        args = c.DeliverSignalArgs(
            execution_id=ExecutionId(execution_id),
            waitpoint_id=WaitpointId(waitpoint_id),
            waitpoint_token=_token(token),
            signal_id=SignalId.new(),
            signal_name=name,
            payload=said,
            payload_encoding=None if said is None else ENCODING,
        )
        _print_outcome(await fabric.backend.deliver_signal(args), out)

    on_store(url, as_json, body)


def _token(given: str | None) -> WaitpointToken:
    text = parsing.hidden_line("token") if given == _STDIN else given or Settings.from_env().waitpoint_token
    if not text:
        problem = "is needed: give --token - and the token on stdin, or set FLOWFABRIC_WAITPOINT_TOKEN"
        raise InvalidInput("--token", None, problem)
    return WaitpointToken(text)


def _print_outcome(outcome: c.SignalOutcome, out: Output) -> None:
    if out.as_json:
        out.json(outcome)
    elif isinstance(outcome, c.SignalDuplicate):
        out.line(f"{outcome.existing_signal_id} duplicate")
    elif isinstance(outcome, c.ResumeTriggered):
        out.line(f"{outcome.signal_id} triggered_resume")
    else:
        out.line(f"{outcome.signal_id} accepted: {outcome.effect}")


def resume(execution_id: Id, delay: Delay = "0s", url: Url = None, as_json: AsJson = False) -> None:
    """End the suspension of an execution, whatever it waits for."""

    async def body(fabric: Fabric, out: Output) -> None:
        delay_ms = round(parsing.duration("--delay", delay) * 1000)
        args = c.ResumeExecutionArgs(execution_id=ExecutionId(execution_id), resume_delay_ms=delay_ms)
        done = await fabric.backend.resume_execution(args)
        if out.as_json:
            out.json({"execution_id": args.execution_id, "outcome": "resumed", "public_state": done.public_state})
        else:
            out.line(f"{args.execution_id} resumed: {done.public_state}")

    on_store(url, as_json, body)
