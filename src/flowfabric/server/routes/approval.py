"""Waitpoint links: a page that asks a person, and the delivery of the answer of a person or a program.

The token in the link grants access, so there is no login. GET changes nothing; the answer is a POST. Forged links and
links to missing waitpoints get the same answer (G6).
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive

from flowfabric.backends.http.operations import BY_PORT
from flowfabric.backends.ports import EngineBackend
from flowfabric.client.signals import by_link
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.forms import WaitForm
from flowfabric.core.ids import ExecutionId, SignalId, WaitpointId, WaitpointToken
from flowfabric.core.links import SignalLink
from flowfabric.errors import FlowFabricError, InvalidAnswer, InvalidInput
from flowfabric.server.http.bounds import members, read_json
from flowfabric.server.http.decoding import body_of
from flowfabric.server.http.problems import status_of
from flowfabric.server.pages.approval import Asked, asking, telling
from flowfabric.server.pages.fields import Answers, BadAnswer, said
from flowfabric.server.routes.ports import handler
from flowfabric.server.service import Service, answer

_FORM: Final = "application/x-www-form-urlencoded"
_TOKEN_MEMBER: Final = re.compile(rb"(^|&)token=")
_PATH: Final = BY_PORT["deliver_signal"].path
_ASK: Final = "ask"  # the name of a signal that is never delivered
_HEADERS: Final = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
_FORGED: Final = frozenset(
    {"invalid_token", "missing_token", "token_expired", "execution_not_found", "waitpoint_not_found", "invalid_input"}
)
_deliver: Final = handler(BY_PORT["deliver_signal"])


async def show(request: Request) -> Response:
    """Show the question; nothing changes."""
    service = Service.of(request)
    service.visitor(request)
    try:
        link = _link(request, request.query_params.get("token", ""), request.query_params.get("name"))
        asked = await _asked(service.backend, link)
    except FlowFabricError as error:
        return _refused(request, service, error)
    return _html(asking(asked, link.token.reveal()))


async def decide(request: Request) -> Response:
    """Deliver the answer: from a form, from a program with a link, or from one with a bearer token."""
    service = Service.of(request)
    has_link = "token" in request.query_params
    is_form = request.headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM
    if not has_link and not is_form:
        return await _deliver(request)
    service.visitor(request)
    body = await body_of(request, service.settings)
    if is_form and _is_filled_in(body, has_link):
        return await _by_form(request, service, body)
    if has_link:
        return await _by_link(request, service, body)
    return await _deliver(Request(request.scope, _again(body)))


def _is_filled_in(body: bytes, has_link: bool) -> bool:
    """Whether it is the form of the page: `curl -d` calls any body a form, also JSON."""
    return bool(_TOKEN_MEMBER.search(body)) or not (has_link or body.lstrip().startswith(b"{"))


def _again(body: bytes) -> Receive:
    """Receives a body that was read before."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _by_form(request: Request, service: Service, text: bytes) -> Response:
    given = dict(members(text, service.settings.query_parameters, field="form"))
    try:
        link = _link(request, given.get("token", ""), given.get("name"))
        asked = await _asked(service.backend, link)
        try:
            payload, once = Answers(asked.form).read(given), given.get("once") or None
            args = by_link(link, payload, name=None, source="", idempotency_key=once, source_type="page")
        except (BadAnswer, InvalidInput) as problem:
            return _asked_again(asked, link, problem, given)
        try:
            await service.backend.deliver_signal(args)
        except InvalidAnswer as problem:
            return _asked_again(asked, link, problem, given)
    except FlowFabricError as error:
        return _refused(request, service, error)
    return _html(telling("Thank you", "Your answer was delivered. You can close this page."))


async def _by_link(request: Request, service: Service, body: bytes) -> Response:
    """The body is the payload as JSON; an empty body sends a signal without payload."""
    link = _link(request, request.query_params["token"], request.query_params.get("name"))
    payload = read_json(Any, body, root="payload") if body else None
    key = request.headers.get("idempotency-key")
    args = by_link(link, payload, name=None, source="", idempotency_key=key, source_type="link")
    try:
        return answer(await service.backend.deliver_signal(args))
    except FlowFabricError as error:
        if error.code in _FORGED - {"invalid_input"}:
            service.failed(request)
            raise FlowFabricError("the link is not valid", code="invalid_token") from None
        raise


def _link(request: Request, token: str, name: str | None) -> SignalLink:
    return SignalLink(
        execution_id=ExecutionId(request.path_params["execution_id"]),
        waitpoint_id=WaitpointId(request.path_params["waitpoint_id"]),
        token=_token(token),
        signal_name=name or None,
    )


def _token(text: str) -> WaitpointToken:
    """Malformed tokens are refused exactly like wrong ones, so that the answer reveals nothing."""
    try:
        return WaitpointToken(text)
    except InvalidInput:
        return WaitpointToken("")


async def _asked(backend: EngineBackend, link: SignalLink) -> Asked:
    """The question behind the link, for a client with its token."""
    found = await _open(backend, link)
    if found is None:
        raise await _closed(backend, link)
    waitpoint, form = found
    _check(waitpoint, link.token.reveal())
    execution = await backend.get_execution(link.execution_id)
    if execution is None:
        raise FlowFabricError(code="invalid_token")
    return Asked(waitpoint, execution, form, link.signal_name)


async def _open(backend: EngineBackend, link: SignalLink) -> tuple[c.PendingWaitpointInfo, WaitForm | None] | None:
    """The waitpoint, if it is open, and the form of its wait, if the handler waits already."""
    args = c.ListPendingWaitpointsArgs(execution_id=link.execution_id, limit=limits.SCAN_LIMIT_MAX)
    while True:
        page = await backend.list_pending_waitpoints(args)
        for each in page.entries:
            if each.waitpoint_id == link.waitpoint_id:
                return each, page.form if each.state is c.WaitpointState.ACTIVE else None
        if page.next_cursor is None:
            return None
        args = c.ListPendingWaitpointsArgs(execution_id=args.execution_id, after=page.next_cursor, limit=args.limit)


def _check(waitpoint: c.PendingWaitpointInfo, token: str) -> None:
    """Whether the token is the waitpoint's, by its fingerprint: the store never reveals the token itself.

    A revoked token has none.
    """
    kid, _, digest = token.partition(":")
    fingerprint = hashlib.sha1(digest.encode(), usedforsecurity=False).hexdigest()[:16]
    presented, known = f"{kid}:{fingerprint}", f"{waitpoint.token_kid}:{waitpoint.token_fingerprint}"
    if not waitpoint.token_fingerprint or not secrets.compare_digest(presented, known):
        raise FlowFabricError(code="invalid_token")


async def _closed(backend: EngineBackend, link: SignalLink) -> FlowFabricError:
    """The refusal of a waitpoint that is not open: a signal there is refused and changes nothing (G4).

    The refusal is "closed" for a client with the token, and "wrong token" for all others.
    """
    args = c.DeliverSignalArgs(
        execution_id=link.execution_id,
        waitpoint_id=link.waitpoint_id,
        waitpoint_token=link.token,
        signal_id=SignalId.new(),
        signal_name=_ASK,
    )
    try:
        await backend.deliver_signal(args)
    except FlowFabricError as refusal:
        return refusal
    raise AssertionError("a waitpoint that was closed has taken a signal")


def _refused(request: Request, service: Service, error: FlowFabricError) -> Response:
    if error.code in _FORGED:
        service.failed(request)
        said = ("This link is not valid", "It may be incomplete or revoked. Ask for a new link.")
        return _html(telling(*said), 404)
    if error.code in ("waitpoint_closed", "target_not_signalable", "execution_not_suspended"):
        said = ("This question is closed", "It was already answered, or it timed out.")
        return _html(telling(*said), 410)
    said = ("Something went wrong", "Nothing was changed. Try again in a moment.")
    return _html(telling(*said), status_of(error))


def _asked_again(asked: Asked, link: SignalLink, problem: Exception, given: Mapping[str, str]) -> Response:
    """The form as it was filled in, and what is wrong with it."""
    return _html(asking(asked, link.token.reveal(), problem=said(problem), given=given), 422)


def _html(text: str, status: int = 200) -> Response:
    return Response(text, status, _HEADERS, media_type="text/html")


async def css(_: Request) -> Response:
    text = files("flowfabric.server.pages").joinpath("approval.css").read_text()
    return Response(text, headers={"Cache-Control": "max-age=3600"}, media_type="text/css")


ROUTES: Final = [
    Route(_PATH, show, methods=["GET"]),
    Route(_PATH, decide, methods=["POST"]),
    Route("/pages/approval.css", css),
]
