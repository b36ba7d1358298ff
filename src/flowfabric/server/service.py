"""Shared by all routes: the store, the settings, the caller, and the form of a response."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from flowfabric.backends.batching import Gatherer
from flowfabric.backends.http.operations import Scope
from flowfabric.backends.http.shapes import to_wire
from flowfabric.backends.ports import EngineBackend
from flowfabric.client.tasks.registered import RegisteredTasks
from flowfabric.client.tasks.submission import Submitter
from flowfabric.core.ids import Namespace
from flowfabric.engine import Engine
from flowfabric.errors import FlowFabricError
from flowfabric.errors.texts import with_short_ids
from flowfabric.server.access.origins import check_origin
from flowfabric.server.access.peers import Peers
from flowfabric.server.access.rates import Rates
from flowfabric.server.access.shares import Shares, Turns
from flowfabric.server.access.tokens import Token, Tokens, check_scope
from flowfabric.server.feeds.feed import Feeds
from flowfabric.server.feeds.items import EncodedFrames
from flowfabric.server.feeds.log_hub import LogHub
from flowfabric.server.http.bounds import items_of
from flowfabric.server.http.headers import header
from flowfabric.server.metrics.gauges import Happened
from flowfabric.server.metrics.registry import Requests
from flowfabric.server.settings import ServerSettings

if TYPE_CHECKING:
    from flowfabric.server.feeds.sse import EventStream

_SUBMITTERS: Final = 1_024
_audit: Final = logging.getLogger("flowfabric.audit")


class Service:
    """One server."""

    def __init__(self, backend: EngineBackend, settings: ServerSettings, engine: Engine | None = None) -> None:
        self.backend = backend
        self.settings = settings
        self.engine = engine  # the engine in the same process, if any
        self.requests = Requests()
        self.happened = Happened(backend)
        self.tokens = Tokens(settings.tokens)
        self.peers = Peers(settings.proxies)
        self.rates = Rates(settings.rate_per_second, settings.rate_burst)
        self._failures = Rates(settings.failures_per_second, settings.failure_burst, what="failures")
        self.gatherer = Gatherer(backend)
        self.stopping = asyncio.Event()
        self.streams: set[EventStream] = set()  # open ones
        self.keeper: asyncio.Task[None] | None = None  # of the streams
        self.feeds = Feeds()
        self.log_hub = LogHub(backend)
        self.stream_shares = Shares(settings.streams_per_token, "streams")
        self.wait_shares = Shares(settings.waits_per_token, "waiting calls")
        self._turns = Turns()
        self.encoded_frames = EncodedFrames()
        self.document: bytes | None = None  # the API description; created on first use
        self._submitters: OrderedDict[tuple[str, str], Submitter] = OrderedDict()  # of the most recent namespaces
        self._registered: OrderedDict[str, RegisteredTasks] = OrderedDict()  # of the most recent namespaces
        self._tenants: dict[tuple[str, ...], EngineBackend] = {}

    @classmethod
    def of(cls, request: Request) -> Service:
        service = request.app.state.service
        assert isinstance(service, cls)
        return service

    def caller(self, request: Request, *scopes: Scope) -> Token:
        """The caller, admitted if its token has one of the scopes, or if none is asked for."""
        if not self.settings.tokens:
            check_origin(request, self.settings.origins, self.peers)
        try:
            token = self.tokens.find(header(request, b"authorization"))
        except FlowFabricError:
            self.failed(request)
            raise
        if self.settings.rate_per_second:
            self.rates.take(self.name_of(request, token))
        if scopes:
            check_scope(token, *scopes)
        return token

    def name_of(self, request: Request, token: Token) -> str:
        """The identity of a caller for limits: the token or, on an open server, the address."""
        return token.name if self.settings.tokens else self.peers.of(request)

    def turn(self, request: Request, token: Token) -> asyncio.Semaphore:
        """The turn of a reader of this caller that catches up."""
        return self._turns.of(self.name_of(request, token))

    def store(self, token: Token) -> EngineBackend:
        """The store within the namespaces of the token; records of other namespaces do not exist."""
        if token.is_for_all:
            return self.backend
        found = self._tenants.get(token.namespaces)
        if found is None:
            found = self.backend.within([Namespace(each) for each in token.namespaces])
            self._tenants[token.namespaces] = found
        return found

    def visitor(self, request: Request) -> None:
        """A caller without a token of the server, limited by address."""
        self.rates.take(self.peers.of(request))

    def charge(self, request: Request, token: Token, args: Any) -> None:
        """Charge a batch as one call per item; the call itself is already counted."""
        if self.settings.rate_per_second:
            self.rates.charge(self.name_of(request, token), items_of(args) - 1)

    def failed(self, request: Request) -> None:
        """Count a wrong token; after too many the response is 429, and the connection is closed.

        A valid token is admitted anyway: sharing an address with a guesser does not lock a caller out.
        """
        try:
            self._failures.take(self.peers.of(request))
        except FlowFabricError:
            request.state.is_cut_off = True
            raise

    def submitter(self, namespace: str, token: Token) -> Submitter:
        """The namespace and token name of a submission; on an open server there is no token name."""
        creator = token.name if self.settings.tokens else ""
        found = self._submitters.get((namespace, creator))
        if found is None:
            found = Submitter(self.backend.partitions, Namespace(namespace), creator)
            self._submitters[namespace, creator] = found
            if len(self._submitters) > _SUBMITTERS:
                self._submitters.popitem(last=False)
        return found

    def registered_tasks(self, namespace: str) -> RegisteredTasks:
        """Tasks by name, with the options that workers of a namespace have registered."""
        found = self._registered.get(namespace)
        if found is None:
            found = self._registered[namespace] = RegisteredTasks(self.backend, Namespace(namespace))
            if len(self._registered) > _SUBMITTERS:
                self._registered.popitem(last=False)
        return found

    def audit(self, request: Request, token: Token, action: str, **facts: object) -> None:
        """Log an operator action, without payloads and tokens."""
        if self.settings.audit_log:
            shown = {name: with_short_ids(str(value)) for name, value in facts.items() if value is not None}
            extra = {"action": action, "token": token.name, "request_id": request.state.request_id, **shown}
            told = " ".join(f"{name}={value}" for name, value in shown.items())
            _audit.info("%s by %s %s", action, token.name, told, extra={"audit": extra})


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(to_wire(value), status, headers, media_type="application/json")
