"""A visitor of the page without a browser: it reads the events as a browser does, and decides when it is asked to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx


class Event(NamedTuple):
    kind: str
    value: Any
    id: str


class Visitor:
    """What stands on the page of one visitor."""

    def __init__(self, http: httpx.AsyncClient, *, approve: bool = True) -> None:
        self._http = http
        self._approve = approve
        self._link: str | None = None  # of the last decision
        self._last = ""  # the id of the last event
        self.text = ""
        self.state = ""

    async def ask(self, question: str) -> str:
        """The id of the run that answers."""
        reply = await self._http.post("/ask", json={"question": question})
        return str(reply.raise_for_status().json()["id"])

    async def watch(self, run: str) -> None:
        """Until the run has ended; reconnects after the last event."""
        while not self.state:
            async for event in self._events(f"/runs/{run}/events"):
                await self._on(event)

    async def _on(self, event: Event) -> None:
        self._last = event.id or self._last
        if event.kind == "reset":
            self.text = ""
        elif event.kind == "token":
            self.text += event.value
        elif event.kind == "approval" and event.value["link"] != self._link:
            self._link = event.value["link"]
            await self._decide()
        elif event.kind == "end":
            self.state = event.value

    async def _decide(self) -> None:
        """The agent shows the link before it waits: a signal that comes first is kept."""
        reply = await self._http.post("/decide", json={"link": self._link, "approve": self._approve})
        reply.raise_for_status()

    async def _events(self, path: str) -> AsyncIterator[Event]:
        headers = {"Last-Event-ID": self._last} if self._last else {}
        async with self._http.stream("GET", path, headers=headers, timeout=None) as reply:
            members: dict[str, str] = {}
            async for line in reply.raise_for_status().aiter_lines():
                name, _, value = line.partition(": ")
                if line:
                    members[name] = value
                elif "event" in members:
                    yield Event(members["event"], json.loads(members["data"]), members.get("id", ""))
                    members = {}
