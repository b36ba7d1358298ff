"""Call an operation of the table: the request as path, query or body, and the reply as the port's result."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec

from flowfabric.backends.http import shapes
from flowfabric.backends.http.operations import BY_PORT, Operation
from flowfabric.backends.http.transport import Query, Transport
from flowfabric.core.codec import encode_short_id
from flowfabric.errors import BadReply, FlowFabricError

T = TypeVar("T")


class Caller:
    """Calls the operations of one server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def ask(self, port: str, request: msgspec.Struct | None = None, /, **arguments: Any) -> T:
        """Call a port with its struct, or with its keywords; the result is of the type that the port declares."""
        operation = BY_PORT[port]
        if request is None:
            request = operation.signature.request(**arguments)
        try:
            data = await self.call(operation, request)
        except FlowFabricError as error:
            if error.details.get("absent"):
                return None  # type: ignore[return-value]  # only ports that may answer None are marked so
            raise
        try:
            found: T = reader(port)(data)
        except msgspec.DecodeError as cause:
            raise BadReply(f"{port}: {cause}") from cause
        return found

    async def call(self, operation: Operation, request: msgspec.Struct) -> bytes:
        """Send a request and return the body of the reply."""
        members = {name: getattr(request, name) for name in request.__struct_fields__}
        in_path = {name: self._transport.quoted(members.pop(name)) for name in operation.parameters}
        path = operation.path.format(**in_path)
        if operation.has_body:
            return await self._transport.request(operation.method, path, body=shapes.to_wire(members))
        return await self._transport.request("GET", path, query=_query(members), waits=operation.waits)


@cache
def reader(port: str) -> Callable[[bytes], Any]:
    """Decodes the reply of a port."""
    return shapes.reader(BY_PORT[port].signature.result)


def _query(members: dict[str, Any]) -> Query:
    found: Query = []
    for name, value in members.items():
        if value is None:
            continue
        if isinstance(value, str):
            found.append((name, encode_short_id(value)))
        else:
            found.append((name, shapes.to_wire(value).decode()))
    return found
