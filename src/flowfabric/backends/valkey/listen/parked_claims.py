"""Claims that wait in the store for work, and the messages that bring it (lua/lib/claim/parked_handoff.lua)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flowfabric.backends.valkey.library.calls import FunctionCaller
from flowfabric.backends.valkey.rows.claimed import CallIds, ClaimReader
from flowfabric.core.codec import from_msgpack, to_msgpack
from flowfabric.core.contracts import batch as b
from flowfabric.errors import BadReply

KEY_LENGTH: Final = 24  # a message begins with the key of the claim it is for
_ROWS_AT: Final = KEY_LENGTH + 8  # behind the length of the rows
_BYTES: Final = (2, 9)  # where the lengths of its payload and of its resumption stand in a row


class ValkeyParkedClaim:
    """One claim that waits."""

    def __init__(
        self, caller: FunctionCaller, tag: str, args: b.ClaimExecutionsArgs, ids: CallIds, request: Mapping[str, object]
    ) -> None:
        self._caller = caller
        self._tag = tag
        self._args = args
        self._ids = ids
        self._request = request

    @property
    def key(self) -> str:
        return self._ids.leases

    def read(self, message: bytes) -> list[b.ClaimedWork]:
        try:
            rows_end = _ROWS_AT + int(message[KEY_LENGTH:_ROWS_AT], 16)
            expires_at, rows = from_msgpack(message[_ROWS_AT:rows_end])
            return self._works(_with_payloads(rows, message, rows_end), expires_at.encode())
        except (ValueError, TypeError, AttributeError, IndexError) as cause:
            raise BadReply(f"not what a parked claim is answered with: {message!r:.200}") from cause

    async def recall(self) -> list[b.ClaimedWork]:
        # It waits for as many as `park` says, so that many may have been given.
        request = {**self._request, "count": self._request["park"], "recall": True}
        fields = await self._caller.call_partition("claim_batch", self._tag, request=to_msgpack(request))
        rows = fields.values[0]
        return self._works(rows if isinstance(rows, list) else [], fields.values[1])

    def _works(self, rows: list[Any], expires_at: Any) -> list[b.ClaimedWork]:
        reader = ClaimReader(self._args, self._ids, expires_at)
        return [work for work in map(reader.read, rows) if isinstance(work, b.ClaimedWork)]


def _with_payloads(rows: list[list[Any]], message: bytes, at: int) -> list[list[Any]]:
    """The rows as a reply has them: bytes, all in their places."""
    whole = []
    for number, *cells in rows:
        row = [number, *[cell.encode() if type(cell) is str else cell for cell in cells]]
        for cell in _BYTES:
            if cell < len(row):
                end = at + row[cell]
                row[cell], at = message[at:end], end
        whole.append(row)
    return whole
