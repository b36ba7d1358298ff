"""`suspended`, `waitpoints`, `signal` and `resume`: executions that wait for the world outside, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from typer import Argument, Option

from flowfabric.cli import parsing
from flowfabric.cli.options import AsJson, Cursor, Id, LaneFilter, Limit, Url
from flowfabric.cli.parsing import age_text, time_text
from flowfabric.cli.running import on_store
from flowfabric.cli.show.output import Output, Styled
from flowfabric.cli.show.paging import collected
from flowfabric.client.fabric import Fabric
from flowfabric.client.handle import Handle
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, WaitpointId, WaitpointKey, WaitpointToken
from flowfabric.core.links import SignalLink
from flowfabric.errors import InvalidInput

_STDIN: Final = "-"

ReasonFilter: TypeAlias = Annotated[
    c.SuspensionReasonCode | None,
    Option("--reason", metavar="REASON", help=f"Only for this reason: {', '.join(c.SuspensionReasonCode)}."),
]
Target: TypeAlias = Annotated[
    str, Argument(metavar="TARGET", help="A link, or - for one on stdin; or the execution's id.", show_default=False)
]
SignalName: TypeAlias = Annotated[
    str | None, Argument(metavar="NAME", help="The signal's name; without one, the link's.", show_default=False)
]
Payload: TypeAlias = Annotated[str | None, Option(metavar="JSON", help="What it says, as JSON.")]
Waitpoint: TypeAlias = Annotated[
    str | None,
    Option(metavar="WAITPOINT", help="Of the execution: its key, where several take the signal; its id, with a token."),
]
Token: TypeAlias = Annotated[
    str | None,
    Option(metavar="TOKEN", help="The waitpoint's, or - for stdin. By default FLOWFABRIC_WAITPOINT_TOKEN."),
]
Source: TypeAlias = Annotated[str, Option(metavar="WHO", help="Who speaks.")]
SignalKey: TypeAlias = Annotated[
    str | None, Option("--idempotency-key", metavar="KEY", help="Sent again, it is the same signal.")
]
Wait: TypeAlias = Annotated[
    str | None, Option(metavar="DURATION", help="Wait so long for a waitpoint of the execution that takes it.")
]
LinkName: TypeAlias = Annotated[
    str | None, Argument(metavar="NAME", help="What the signal is called.", show_default=False)
]
LinkWaitpoint: TypeAlias = Annotated[str | None, Option("--waitpoint", metavar="KEY", help="Where several are open.")]
Base: TypeAlias = Annotated[
    str | None, Option(metavar="URL", help="The server's address; by default FLOWFABRIC_CALLBACK_URL's.")
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
        async def one(cursor: str | None, limit: int) -> tuple[Sequence[c.SuspendedExecutionEntry], str | None]:
            page = await fabric.suspended(lane=lane, reason=reason, cursor=cursor, limit=limit)
            return page.entries, page.next_cursor

        found, next_cursor = await collected(one, cursor=cursor, limit=limit)
        _print_page(c.ListSuspendedPage(entries=tuple(found), next_cursor=next_cursor), out)

    on_store(url, as_json, body)


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
        found = await open_waitpoints(fabric.handle(execution_id))
        if out.as_json:
            out.json({"waitpoints": found})
        else:
            print_waitpoints(found, out)

    on_store(url, as_json, body)


async def open_waitpoints(handle: Handle[Any]) -> list[c.PendingWaitpointInfo]:
    async def one(cursor: str | None, limit: int) -> tuple[Sequence[c.PendingWaitpointInfo], str | None]:
        page = await handle.waitpoints(cursor=cursor, limit=limit)
        return page.entries, page.next_cursor

    found, _ = await collected(one)
    return found


def print_waitpoints(found: list[c.PendingWaitpointInfo], out: Output) -> None:
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


def link(
    execution_id: Id,
    name: LinkName = None,
    waitpoint: LinkWaitpoint = None,
    base: Base = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Print a link by which whoever has it may signal: the token is in it, so mind where it goes."""

    async def body(fabric: Fabric, out: Output) -> None:
        found = await fabric.handle(execution_id).link(name, waitpoint=waitpoint, base=base)
        if out.as_json:
            out.json({"link": found})
        else:
            out.line(found)

    on_store(url, as_json, body)


def signal(
    target: Target,
    name: SignalName = None,
    payload: Payload = None,
    waitpoint: Waitpoint = None,
    token: Token = None,
    source: Source = "",
    idempotency_key: SignalKey = None,
    wait: Wait = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Signal by a link, or to an execution, for which whoever has the store needs no token.

    A link or a token among the arguments can be seen by who lists processes; on stdin it cannot.
    """

    async def body(fabric: Fabric, out: Output) -> None:
        said = parsing.json_payload("--payload", payload)
        content: dict[str, Any] = {
            "payload": None if said is None else msgspec.Raw(said),
            "source": source,
            "idempotency_key": idempotency_key,
        }
        patience = parsing.optional_duration("--wait", wait)
        if link := _link(target, waitpoint, token):
            _refuse("--wait", wait, "is for an execution alone: a waitpoint that has a token takes signals already")
            outcome = await fabric.signal(link, name=name, **content)
        elif name is None:
            raise InvalidInput("NAME", None, "must be given: what the signal is called")
        else:
            outcome = await _to_execution(fabric.handle(target), name, waitpoint, wait=patience, **content)
        _print_outcome(outcome, out)

    on_store(url, as_json, body)


async def _to_execution(handle: Handle[Any], name: str, waitpoint: str | None, **content: Any) -> c.SignalOutcome:
    """What is wrong with the waitpoint's key is told of the option that it came by."""
    try:
        return await handle.signal(name, waitpoint=waitpoint, **content)
    except InvalidInput as error:
        if error.field != WaitpointKey.field:
            raise
        problem = error.message.removeprefix(f"{error.field}: ").rpartition(" (got ")[0]
        raise InvalidInput("--waitpoint", waitpoint, problem, code=error.code) from None


def _link(target: str, waitpoint: str | None, token: str | None) -> SignalLink | None:
    """The link that was given, or the one that waitpoint and token make; None for an execution alone."""
    if target.startswith("{"):
        allowed = _token(token, waitpoint)
        return None if allowed is None else _link_of(target, waitpoint, allowed)
    if target != _STDIN and "/" not in target:
        problem = "must be an execution's id, like {fp:7}:<uuid>, or a link, or - for a link on stdin"
        raise InvalidInput("TARGET", "<redacted>", problem)
    for option, value in (("--waitpoint", waitpoint), ("--token", token)):
        _refuse(option, value, "is in the link, so leave it out")
    return SignalLink.parse(parsing.hidden_line("link") if target == _STDIN else target)


def _link_of(execution_id: str, waitpoint: str | None, token: WaitpointToken) -> SignalLink:
    if waitpoint is None:
        raise InvalidInput("--waitpoint", None, "must be the waitpoint's id, because a token is given")
    return SignalLink(execution_id=ExecutionId(execution_id), waitpoint_id=WaitpointId(waitpoint), token=token)


def _token(given: str | None, waitpoint: str | None) -> WaitpointToken | None:
    """The token of the option, or that of the environment, which belongs to a waitpoint; None without one."""
    if given is None:
        text = Settings.from_env().waitpoint_token if waitpoint is not None else ""
        return WaitpointToken(text) if text else None
    text = parsing.hidden_line("token") if given == _STDIN else given
    if not text:
        raise InvalidInput("--token", None, "is empty: give --token - and the token on stdin")
    return WaitpointToken(text)


def _refuse(option: str, given: str | None, problem: str) -> None:
    if given is not None:
        raise InvalidInput(option, "<redacted>", problem)


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
        handle = fabric.handle(execution_id)
        state = await handle.resume(delay=parsing.duration("--delay", delay))
        if out.as_json:
            out.json({"execution_id": handle.id, "outcome": "resumed", "public_state": state})
        else:
            out.line(f"{handle.id} resumed: {state}")

    on_store(url, as_json, body)
