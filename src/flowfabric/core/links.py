"""Links that carry a waitpoint's token: a person clicks one, or another system calls it, to deliver a signal."""

from __future__ import annotations

from typing import Self
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import msgspec

from flowfabric.core.ids import ExecutionId, WaitpointId, WaitpointToken
from flowfabric.errors import InvalidInput

_SHAPE = "/v1/executions/<execution id>/waitpoints/<waitpoint id>/signals?token=<token>"


class SignalLink(msgspec.Struct, frozen=True, kw_only=True):
    """The target of a signal, its token, and its default name."""

    execution_id: ExecutionId
    waitpoint_id: WaitpointId
    token: WaitpointToken
    signal_name: str | None = None

    def __repr__(self) -> str:
        return f"SignalLink({self.execution_id.short!r}, {str(self.waitpoint_id)!r}, token=<redacted>)"

    def url(self, base: str) -> str:
        """The link at a server whose address is `base`."""
        path = f"/v1/executions/{self.execution_id.short}/waitpoints/{self.waitpoint_id}"
        query = {"token": self.token.reveal()} | ({"name": self.signal_name} if self.signal_name else {})
        return f"{base.rstrip('/')}{path}/signals?{urlencode(query)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the link from the URL of any server. Errors never contain its token."""
        try:
            url = urlsplit(text)
            parts, query = url.path.split("/")[-6:], parse_qs(url.query)
            version, executions, execution_id, waitpoints, waitpoint_id, signals = parts
            (token,) = query["token"]
        except (ValueError, KeyError, AttributeError, TypeError):
            raise _not_a_link() from None
        if (version, executions, waitpoints, signals) != ("v1", "executions", "waitpoints", "signals"):
            raise _not_a_link()
        return cls(
            execution_id=ExecutionId(unquote(execution_id)),
            waitpoint_id=WaitpointId(unquote(waitpoint_id)),
            token=WaitpointToken(token),
            signal_name=query.get("name", [None])[0],
        )


def _not_a_link() -> InvalidInput:
    return InvalidInput("link", "<redacted>", f"must be a URL that ends in {_SHAPE}")
