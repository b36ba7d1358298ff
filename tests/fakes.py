"""A fake server that misbehaves on purpose: silence, losses, refusals."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import hiredis

from tests.servers import HOST, free_port

HELLO = b"*4\r\n$6\r\nserver\r\n$6\r\nvalkey\r\n$7\r\nversion\r\n$5\r\n9.1.2\r\n"
OK = b"+OK\r\n"
SILENCE = b""
DROP = b"drop the connection"

Answer = Callable[["FakeServer", list[bytes]], bytes]


class FakeServer:
    """Speaks as much of the protocol as a test needs; `answer` says what each command gets."""

    def __init__(self, answer: Answer, hello: bytes) -> None:
        self.url = ""
        self.commands: list[bytes] = []  # after the login
        self.reads: list[int] = []  # how many commands each read brought
        self.connections = 0
        self.reading = asyncio.Event()
        self.reading.set()
        self.answer = answer
        self._hello = hello
        self._writers: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        parser = hiredis.Reader()
        try:
            while data := await self._read(reader):
                parser.feed(data)
                if not self._take(parser, writer):
                    break
        except ConnectionError:
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        await self.reading.wait()
        return await reader.read(1 << 20)

    def _take(self, parser: hiredis.Reader, writer: asyncio.StreamWriter) -> bool:
        count = 0
        while command := parser.gets():
            if command[0] == b"HELLO":
                writer.write(self._hello)
                continue
            count += 1
            self.commands.append(b" ".join(command))
            answer = self.answer(self, command)
            if answer is DROP:
                return False
            writer.write(answer)
        self.reads += [count] if count else []
        return True

    def drop_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def fake(
    answer: Answer = lambda _, __: OK,
    *,
    hello: bytes = HELLO,
    tls: ssl.SSLContext | None = None,
    port: int | None = None,
) -> AsyncIterator[FakeServer]:
    server = FakeServer(answer, hello)
    listener = await asyncio.start_server(server.serve, HOST, port or free_port(), ssl=tls)
    server.url = f"valkey://{HOST}:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        server.drop_all()
        await listener.wait_closed()
