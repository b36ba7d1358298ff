"""`suspended`, `waitpoints`, `link`, `signal` and `resume`: executions that wait for signals."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from typer import Argument, Option

from flowfabric.cli import parsing
from flowfabric.cli.options import AsJson, Cursor, Id, LaneFilter, Limit, Url
from flowfabric.cli.parsing import age_text, time_text
from flowfabric.cli.running import on_store
from flowfabric.cli.show.output import Output
from flowfabric.cli.show.paging import collected, print_page
from flowfabric.cli.show.unknown_names import warn_of_unknown_lane
from flowfabric.client.fabric import Fabric
from flowfabric.client.handle import Handle
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core.codec import to_json
from flowfabric.core.forms import WaitForm
from flowfabric.core.ids import ExecutionId, WaitpointId, WaitpointKey, WaitpointToken
from flowfabric.core.links import SignalLink
from flowfabric.errors import InvalidInput

_STDIN: Final = "-"

ReasonFilter: TypeAlias = Annotated[
    c.SuspensionReasonCode | None,
    Option("--reason", metavar="REASON", help=f"Only with this reason: {', '.join(c.SuspensionReasonCode)}."),
]
Target: TypeAlias = Annotated[
    str,
    Argument(metavar="TARGET", help="A link, - to read a link from stdin, or an execution's id.", show_default=False),
]
SignalName: TypeAlias = Annotated[
    str | None, Argument(metavar="NAME", help="The signal's name; by default the link's.", show_default=False)
]
Payload: TypeAlias = Annotated[str | None, Option(metavar="JSON", help="The signal's payload, as JSON.")]
Waitpoint: TypeAlias = Annotated[
    str | None,
    Option(metavar="WAITPOINT", help="The waitpoint's key, if several take the signal; its id, with --token."),
]
Token: TypeAlias = Annotated[
    str | None,
    Option(metavar="TOKEN", help="The waitpoint's token, or - for stdin. By default FLOWFABRIC_WAITPOINT_TOKEN."),
]
Source: TypeAlias = Annotated[str, Option(metavar="WHO", help="Who sends the signal.")]
SignalKey: TypeAlias = Annotated[
    str | None, Option("--idempotency-key", metavar="KEY", help="A signal sent again with this key counts once.")
]
Wait: TypeAlias = Annotated[
    str | None,
    Option(metavar="DURATION", help="Wait this long for a waitpoint of the execution that takes the signal."),
]
LinkName: TypeAlias = Annotated[str | None, Argument(metavar="NAME", help="The signal's name.", show_default=False)]
LinkWaitpoint: TypeAlias = Annotated[
    str | None, Option("--waitpoint", metavar="KEY", help="Which one, if several are open.")
]
Base: TypeAlias = Annotated[
    str | None, Option(metavar="URL", help="The server's address; by default FLOWFABRIC_CALLBACK_URL.")
]
Delay: TypeAlias = Annotated[str, Option(metavar="DURATION", help="Resume after this long: 30s, 5m, 2h.")]


def suspended(
    lane: LaneFilter = None,
    reason: ReasonFilter = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List suspended executions, the earliest timeout first."""

    async def body(fabric: Fabric, out: Output) -> None:
        read = partial(fabric.suspended, lane=lane, reason=reason)
        found, next_cursor = await collected(read, lambda page: page.entries, cursor=cursor, limit=limit)
        _print_page(c.ListSuspendedPage(entries=found, next_cursor=next_cursor), out)
        if not found:
            await warn_of_unknown_lane(fabric, lane, out)

    on_store(url, as_json, body)


def _print_page(page: c.ListSuspendedPage, out: Output) -> None:
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
    print_page(page, ("ID", "LANE", "REASON", "SINCE", "TIMEOUT", "THEN"), rows, out)


def waitpoints(execution_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """List the open waitpoints of an execution, the signals they wait for, the question and the type of the answer."""

    async def body(fabric: Fabric, out: Output) -> None:
        handle = fabric.handle(execution_id)
        found, form = await open_waitpoints(handle), (await handle.waitpoints(limit=1)).form
        if out.as_json:
            out.json({"waitpoints": found, "form": form})
        else:
            print_waitpoints(found, out)
            _print_form(form, out)

    on_store(url, as_json, body)


async def open_waitpoints(handle: Handle[Any]) -> list[c.PendingWaitpointInfo]:
    found, _ = await collected(handle.waitpoints, lambda page: page.entries)
    return list(found)


def _print_form(form: WaitForm | None, out: Output) -> None:
    if form is not None and form.question:
        out.line(f"question: {form.question}")
    if form is not None and form.schema is not None:
        out.line(f"answer: {to_json(form.schema).decode()}")


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
    """Print a link for signalling an execution. It contains the token: anyone who has the link may signal."""

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
    """Send a signal by a link, or to an execution by its id, which needs no token.

    Other users of this machine can see links and tokens among the arguments; pass them on stdin instead.
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
            _refuse("--wait", wait, "needs an execution's id: the waitpoint of a link takes signals already")
            outcome = await fabric.signal(link, name=name, **content)
        elif name is None:
            raise InvalidInput("NAME", None, "must be given: the signal's name")
        else:
            outcome = await _to_execution(fabric.handle(target), name, waitpoint, wait=patience, **content)
        _print_outcome(outcome, out)

    on_store(url, as_json, body)


async def _to_execution(handle: Handle[Any], name: str, waitpoint: str | None, **content: Any) -> c.SignalOutcome:
    """Signal an execution; an error about the waitpoint's key names the option."""
    try:
        return await handle.signal(name, waitpoint=waitpoint, **content)
    except InvalidInput as error:
        if error.field != WaitpointKey.field:
            raise
        problem = error.message.removeprefix(f"{error.field}: ").rpartition(" (got ")[0]
        raise InvalidInput("--waitpoint", waitpoint, problem, code=error.code) from None


def _link(target: str, waitpoint: str | None, token: str | None) -> SignalLink | None:
    """The given link, or the link made of execution, waitpoint and token; None without a token."""
    if target != _STDIN and "/" not in target:
        _check_id(target)
        allowed = _token(token, waitpoint)
        return None if allowed is None else _link_of(target, waitpoint, allowed)
    for option, value in (("--waitpoint", waitpoint), ("--token", token)):
        _refuse(option, value, "is part of the link; leave it out")
    return SignalLink.parse(parsing.hidden_line("link") if target == _STDIN else target)


def _check_id(target: str) -> None:
    """Refuse what is not an id, without printing it: it may be a part of a link."""
    try:
        ExecutionId(target)
    except InvalidInput:
        problem = "must be an execution's id, like 7-<uuid>, a link, or - to read a link from stdin"
        raise InvalidInput("TARGET", "<redacted>", problem) from None


def _link_of(execution_id: str, waitpoint: str | None, token: WaitpointToken) -> SignalLink:
    if waitpoint is None:
        raise InvalidInput("--waitpoint", None, "must be the waitpoint's id when a token is given")
    return SignalLink(execution_id=ExecutionId(execution_id), waitpoint_id=WaitpointId(waitpoint), token=token)


def _token(given: str | None, waitpoint: str | None) -> WaitpointToken | None:
    """The token from --token, or with --waitpoint from the environment; None without one."""
    if given is None:
        text = Settings.from_env().waitpoint_token if waitpoint is not None else ""
        return WaitpointToken(text) if text else None
    text = parsing.hidden_line("token") if given == _STDIN else given
    if not text:
        raise InvalidInput("--token", None, "is empty; pass --token - and write the token to stdin")
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
    """End the suspension of an execution without a signal."""

    async def body(fabric: Fabric, out: Output) -> None:
        handle = fabric.handle(execution_id)
        state = await handle.resume(delay=parsing.duration("--delay", delay))
        if out.as_json:
            out.json({"execution_id": handle.id, "outcome": "resumed", "public_state": state})
        else:
            out.line(f"{handle.id.short} resumed: {state}")

    on_store(url, as_json, body)
