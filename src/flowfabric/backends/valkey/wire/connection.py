"""One connection to one server: implicit pipelining over asyncio.Protocol and the hiredis parser.

A command on an idle connection is written immediately; the commands that follow in the same turn of the event loop
share one write. Replies arrive in order, so a deque of futures is the only bookkeeping. A cancelled caller leaves its
done future in the deque, and its reply is dropped.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

import hiredis

from flowfabric.backends.valkey.wire.url import ServerAddress
from flowfabric.errors import BackendTimeout, BackendUnavailable, BadReply, UnsupportedServer

Argument: TypeAlias = str | bytes | int
Reply: TypeAlias = "bytes | int | list[Reply] | None"
OnMessage: TypeAlias = Callable[[list[Reply]], None]

# Functions came with Redis 7.0; Valkey began at 7.2.
OLDEST: Final = {"redis": (7, 0), "valkey": (7, 2)}

_INCOMPLETE: Final = object()
_MESSAGES: Final = (b"message", b"pmessage", b"smessage")
_REFUSALS: Final = frozenset({"WRONGPASS", "NOAUTH", "NOPERM", "DENIED"})
_pack = cast("Callable[[tuple[Argument, ...]], bytes]", hiredis.pack_command)


class ServerReplyError(Exception):
    """The server replied with an error. Internal to the backends, which turn it into a FlowFabricError."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        self.prefix = text.partition(" ")[0]


class AccessRefused(BackendUnavailable):
    """The server refused access, or its certificate was refused; a retry does not help."""


class Connection(asyncio.Protocol):
    """One pipelined connection, made by connect(). A lost one is not reopened."""

    def __init__(self, peer: str, command_timeout_ms: int | None = None, on_message: OnMessage | None = None) -> None:
        self.peer = peer
        self.server_version = ""
        self.is_primary = True
        self.mode = "standalone"
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = hiredis.Reader(replyError=ServerReplyError, notEnoughData=_INCOMPLETE)
        self._on_message = on_message
        self._outbox: list[bytes] = []
        self._unsent: list[asyncio.Future[Reply]] = []  # the futures of _outbox
        self._sent: deque[asyncio.Future[Reply]] = deque()
        self._flush_is_due = False
        self._paused = False
        self._timeout = None if command_timeout_ms is None else command_timeout_ms / 1000
        # (commands sent so far, time) of each write, oldest first: how long the oldest command has waited.
        self._writes: deque[tuple[int, float]] = deque()
        self._sent_count = 0
        self._received_count = 0
        self._watchdog: asyncio.TimerHandle | None = None
        self._failure: str | None = None
        self._draining = False
        self._closed = asyncio.Event()

    @property
    def usable(self) -> bool:
        return self._failure is None and not self._draining

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def send(self, *command: Argument) -> asyncio.Future[Reply]:
        """Queue a command; the future gets its reply. Without an await in between, commands stay together."""
        if self._failure is not None:
            raise BackendUnavailable(self._failure, sent=False)
        self._outbox.append(_pack(command))
        future: asyncio.Future[Reply] = self._loop.create_future()
        self._unsent.append(future)
        if not self._sent and not self._flush_is_due:  # idle: let the server start
            self._flush()
        elif not self._flush_is_due and not self._paused:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)
        return future

    def drain(self) -> None:
        """Refuse new commands, and close after the last pending reply."""
        self._draining = True
        self._end_if_drained()

    def _end_if_drained(self) -> None:
        if self._draining and not self._sent and not self._unsent:
            self.abort("closed by this client")

    async def close(self) -> None:
        """Close the connection; pending commands fail."""
        self.abort("closed by this client")
        await self._closed.wait()

    def abort(self, reason: str) -> None:
        """Fail all pending commands and drop the socket without a TLS shutdown, which could hang."""
        self._fail(BackendUnavailable, f"{self.peer}: {reason}")

    async def wait_closed(self) -> None:
        await self._closed.wait()

    def _flush(self) -> None:
        self._flush_is_due = False
        if self._failure is not None or self._paused or self._transport is None:
            return
        batch = b"".join(self._outbox)
        self._sent_count += len(self._unsent)
        self._sent.extend(self._unsent)
        self._writes.append((self._sent_count, self._loop.time()))
        self._outbox.clear()
        self._unsent.clear()
        if self._watchdog is None:
            self._watch()
        self._transport.write(batch)

    def _watch(self) -> None:
        """Set the timer for the oldest pending command."""
        if self._timeout is not None and self._writes:
            self._watchdog = self._loop.call_at(self._writes[0][1] + self._timeout, self._check)

    def _check(self) -> None:
        self._watchdog = None
        if self._timeout is None or not self._writes:
            return
        if self._loop.time() < self._writes[0][1] + self._timeout:
            self._watch()
            return
        self._fail(BackendTimeout, f"{self.peer}: no answer within {self._timeout * 1000:.0f} ms")

    def _fail(self, kind: type[BackendUnavailable] | type[BadReply], reason: str) -> None:
        if self._failure is not None:
            return
        self._failure = reason
        for waiting, sent in ((self._sent, True), (self._unsent, False)):
            for future in waiting:
                if not future.done():
                    future.set_exception(kind(reason, sent=sent))
        for queue in (self._sent, self._unsent, self._outbox, self._writes):
            queue.clear()
        if self._watchdog is not None:
            self._watchdog.cancel()
        if self._transport is not None:
            self._transport.abort()

    # Callbacks of asyncio.Protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        _keep_alive(transport.get_extra_info("socket"))

    def connection_lost(self, exc: Exception | None) -> None:
        reason = f"{self.peer}: connection lost ({exc or 'closed by the server'})"
        if self.server_version or not self._uses_tls():
            self._fail(BackendUnavailable, reason)
        elif _is_refusal(exc):  # TLS 1.3 refuses a client only after the handshake
            self._fail(AccessRefused, f"{self.peer}: TLS was refused ({exc})")
        else:
            self._fail(BackendUnavailable, f"{reason}; does it want another client certificate?")
        self._closed.set()

    def _uses_tls(self) -> bool:
        return self._transport is not None and self._transport.get_extra_info("sslcontext") is not None

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._outbox and not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            self._deliver()
        except hiredis.ProtocolError as error:
            self._fail(BadReply, f"{self.peer}: does not speak the protocol of Valkey ({error})")
        writes, received = self._writes, self._received_count
        while writes and writes[0][0] <= received:
            writes.popleft()
        self._end_if_drained()

    def _deliver(self) -> None:
        gets, sent = self._reader.gets, self._sent
        while (reply := gets()) is not _INCOMPLETE:
            if self._on_message is not None and _is_message(reply):
                self._on_message(reply)
                continue
            if not sent:
                self._fail(BackendUnavailable, f"{self.peer}: sent {str(reply)[:200]!r} without a request")
                return
            self._received_count += 1
            future = sent.popleft()
            if future.done():
                continue
            if isinstance(reply, ServerReplyError):
                future.set_exception(reply)
            else:
                future.set_result(reply)


def _keep_alive(peer: socket.socket) -> None:
    """Enable TCP keepalive: a subscriber sends nothing, so it would never notice a vanished peer."""
    if peer.family not in (socket.AF_INET, socket.AF_INET6):
        return
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _is_message(reply: Any) -> bool:
    return isinstance(reply, list) and bool(reply) and reply[0] in _MESSAGES


async def connect(
    address: ServerAddress,
    *,
    connect_timeout_ms: int,
    command_timeout_ms: int | None,
    on_message: OnMessage | None = None,
) -> Connection:
    """Connect and log in. Errors have sent=False: no command of the caller was sent yet."""
    connection = Connection(str(address), command_timeout_ms, on_message)
    try:
        async with asyncio.timeout(connect_timeout_ms / 1000):
            await _open(address, connection)
            await _log_in(address, connection)
    except BaseException as error:
        connection.abort("the connection was not completed")
        if isinstance(error, TimeoutError):
            reason = f"{address}: no connection within {connect_timeout_ms} ms"
            raise BackendTimeout(reason, sent=False) from error
        if isinstance(error, OSError):
            raise _unreachable(address, error) from error
        if isinstance(error, BackendUnavailable):
            error.details["sent"] = False
        raise
    return connection


def _unreachable(address: ServerAddress, error: OSError) -> BackendUnavailable:
    if isinstance(error, ssl.SSLCertVerificationError):
        return AccessRefused(f"{address}: its certificate is not trusted ({error})", sent=False)
    if _is_refusal(error):
        return AccessRefused(f"{address}: TLS was refused ({error})", sent=False)
    return BackendUnavailable(f"{address}: {error}", sent=False)


def _is_refusal(error: BaseException | None) -> bool:
    """Whether TLS refused the peer (missing or wrong certificate), as opposed to a connection that was lost."""
    ended = ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError
    return isinstance(error, ssl.SSLError) and not isinstance(error, ended)


async def _open(address: ServerAddress, connection: Connection) -> None:
    loop = asyncio.get_running_loop()
    if address.unix_path is not None:
        await loop.create_unix_connection(lambda: connection, address.unix_path)
        return
    host, port = address.hosts[0]
    tls = None if address.tls is None else await asyncio.to_thread(address.tls.context)
    await loop.create_connection(lambda: connection, host, port, ssl=tls)


async def _log_in(address: ServerAddress, connection: Connection) -> None:
    """Log in with HELLO, which every ACL allows, and read the server's identity from its reply."""
    hello: list[Argument] = ["HELLO", 2]
    if address.password is not None:
        hello += ["AUTH", address.username or "default", address.password]
    hello += ["SETNAME", address.client_name]
    replies = [connection.send(*hello)]
    if address.db:
        replies.append(connection.send("SELECT", address.db))
    answers = await asyncio.gather(*replies, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, ServerReplyError):
            raise _login_error(address, answer) from answer
        if isinstance(answer, BaseException):
            raise answer
    _note_hello(connection, address, cast("Reply", answers[0]))


def _login_error(address: ServerAddress, error: ServerReplyError) -> Exception:
    if error.prefix in _REFUSALS:
        return AccessRefused(f"{address}: refused the login ({error.text})", sent=False)
    if "unknown command" in error.text or error.prefix == "NOPROTO":
        return UnsupportedServer(f"{address}: does not know HELLO; Valkey, or Redis 7.0 and newer, is needed")
    if "DB index" in error.text:
        return AccessRefused(f"{address}: has no database {address.db} ({error.text})", sent=False)
    return BackendUnavailable(f"{address}: login failed ({error.text})", sent=False)


def _note_hello(connection: Connection, address: ServerAddress, hello: Reply) -> None:
    """The role, from HELLO: unlike ROLE and INFO, every ACL allows it."""
    if not isinstance(hello, list):
        raise BadReply(f"{address}: HELLO answered {hello!r}")
    pairs = zip(hello[::2], hello[1::2], strict=False)
    facts = {name: value.decode() for name, value in pairs if isinstance(name, bytes) and isinstance(value, bytes)}
    server, version = facts.get(b"server"), facts.get(b"version")
    if server is None or version is None:
        raise BadReply(f"{address}: HELLO did not tell server and version")
    connection.mode = facts.get(b"mode", "standalone")
    if connection.mode == "sentinel":
        raise UnsupportedServer(f"{address}: is a Sentinel; name the servers, like valkey://a:6379,b:6379")
    check_server(str(address), server, version)
    connection.server_version = f"{server} {version}"
    connection.is_primary = facts.get(b"role", "master") in ("master", "primary")


def check_server(peer: str, server: str, version: str) -> None:
    """Refuse a server that cannot run the function library."""
    oldest = OLDEST.get(server)
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if oldest is None or numbers < oldest:
        wanted = " or ".join(f"{name} {major}.{minor}" for name, (major, minor) in sorted(OLDEST.items()))
        raise UnsupportedServer(f"{peer}: {server} {version} will not do; {wanted} or newer is needed")
