"""Claims parked in the store, and the messages that hand them work (lua/lib/claim/parked_handoff.lua)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flowfabric.backends.valkey.library.calls import FunctionCaller
from flowfabric.backends.valkey.rows.claimed import CallIds, ClaimReader
from flowfabric.core.codec import from_msgpack, to_msgpack
from flowfabric.core.contracts import batch as b
from flowfabric.errors import BadReply

KEY_LENGTH: Final = 24  # a message starts with the key of its claim
_ROWS_AT: Final = KEY_LENGTH + 8  # after the length of the rows
_BYTES: Final = (2, 9)  # columns of a row that hold the lengths of its payload and its resumption


class ValkeyParkedClaim:
    """One parked claim."""

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
            raise BadReply(f"not a message for a parked claim: {message!r:.200}") from cause

    async def recall(self) -> list[b.ClaimedWork]:
        # It waits for up to `park` executions, so it may have received that many.
        request = {**self._request, "count": self._request["park"], "recall": True}
        fields = await self._caller.call_partition("claim_batch", self._tag, request=to_msgpack(request))
        rows = fields.values[0]
        return self._works(rows if isinstance(rows, list) else [], fields.values[1])

    def _works(self, rows: list[Any], expires_at: Any) -> list[b.ClaimedWork]:
        reader = ClaimReader(self._args, self._ids, expires_at)
        return [work for work in map(reader.read, rows) if isinstance(work, b.ClaimedWork)]


def _with_payloads(rows: list[list[Any]], message: bytes, at: int) -> list[list[Any]]:
    """The rows in the form of a reply."""
    whole = []
    for number, *cells in rows:
        row = [number, *[cell.encode() if type(cell) is str else cell for cell in cells]]
        for cell in _BYTES:
            if cell < len(row):
                end = at + row[cell]
                row[cell], at = message[at:end], end
        whole.append(row)
    return whole
