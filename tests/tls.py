"""TLS in front of a real server: certificates made on the spot, and a proxy that ends TLS and passes bytes on."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import trustme

from tests.servers import HOST, free_port


@dataclass(frozen=True)
class Certificate:
    cert: Path
    key: Path


class Authority:
    """Signs certificates; whoever trusts `cert` trusts them."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._own = trustme.CA(organization_name=name)
        self.cert = folder / f"{name}.pem"
        self._own.cert_pem.write_to_path(self.cert)

    def issue(self, name: str, host: str = HOST) -> Certificate:
        made = Certificate(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        issued = self._own.issue_cert(host, common_name=name)
        issued.cert_chain_pems[0].write_to_path(made.cert)
        issued.private_key_pem.write_to_path(made.key)
        return made


def _context(certificate: Certificate, clients_of: Authority | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    if clients_of is not None:
        context.load_verify_locations(clients_of.cert)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@contextmanager
def refusing_server(certificate: Certificate, clients_of: Authority) -> Iterator[int]:
    """The port of a server that tells one client why it will not have it, which asyncio's own streams never do."""
    listener = socket.create_server((HOST, free_port()))

    def refuse() -> None:
        plain, _ = listener.accept()
        secured = _context(certificate, clients_of).wrap_socket(plain, True, do_handshake_on_connect=False)
        with suppress(ssl.SSLError):
            secured.do_handshake()
        with socket.socket(fileno=secured.detach()) as ending:
            ending.shutdown(socket.SHUT_WR)
            while ending.recv(4096):  # unread bytes would turn the end into a reset, and the alert would be lost
                pass

    with listener, ThreadPoolExecutor(1) as thread:
        refusing = thread.submit(refuse)
        yield listener.getsockname()[1]
        refusing.result(timeout=10)


@asynccontextmanager
async def tls_proxy(
    target_port: int, certificate: Certificate, *, clients_of: Authority | None = None, port: int | None = None
) -> AsyncIterator[int]:
    """The port of a proxy in front of the server; with `clients_of` it wants a client's certificate, too."""
    context = _context(certificate, clients_of)
    pipes: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(HOST, target_port)
        for source, sink in ((reader, server_writer), (server_reader, writer)):
            pipe = asyncio.create_task(_pipe(source, sink))
            pipes.add(pipe)
            pipe.add_done_callback(pipes.discard)

    listener = await asyncio.start_server(serve, HOST, port or free_port(), ssl=context)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        for pipe in list(pipes):
            pipe.cancel()
        await asyncio.gather(*pipes, return_exceptions=True)
        await listener.wait_closed()


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, ssl.SSLError):
        try:
            while data := await source.read(1 << 16):
                sink.write(data)
                await sink.drain()
        finally:
            sink.transport.abort()
