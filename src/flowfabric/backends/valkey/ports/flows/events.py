"""FlowEventPort on Valkey: wait for flows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from flowfabric.backends.valkey.ports.events import ValkeyEvents
from flowfabric.backends.valkey.ports.flows.reads import ValkeyFlowReads
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.contracts.flows.flow import FLOW_ENDINGS
from flowfabric.core.ids import ExecutionId, FlowId
from flowfabric.core.partition import flow_partition

_ENDED: Final = frozenset(FLOW_ENDINGS.values())


class ValkeyFlowEvents(ValkeyEvents, ValkeyFlowReads):
    """Events of a flow and its members."""

    async def wait_for_flow(self, flow_id: FlowId, *, timeout_ms: int) -> c.FlowState | None:
        limits.whole("timeout_ms", timeout_ms, 0, limits.MAX_DURATION_MS)
        state = await self._flow_state(flow_id)
        if state in _ENDED or timeout_ms == 0:
            return state if state in _ENDED else None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._wait_for_end(flow_id)
        except TimeoutError:
            return None

    async def tail_flow_events(self, flow_id: FlowId, *, cursor: str | None = None) -> AsyncIterator[c.Event]:
        async with self._tail.listen_everywhere(flow_partition(flow_id, self.partitions).tag) as listener:
            while True:
                listener.clear()
                state = await self._flow_state(flow_id)
                page = await self.read_events(c.ReadEventsArgs(flow_id=flow_id, cursor=cursor, limit=1_000))
                for event in page.events:
                    yield event
                cursor = page.cursor
                if page.more:
                    continue
                if state in _ENDED:  # known before the page was read, so the page had its last line
                    return
                await listener.wait()

    async def _wait_for_end(self, flow_id: FlowId) -> c.FlowState:
        """Wait for the flow's own lines, which carry its id in place of an execution id."""
        subject = ExecutionId(f"{flow_partition(flow_id, self.partitions).tag}:{flow_id}")
        async with self._tail.listen(subject) as listener:
            while True:
                listener.clear()
                state = await self._flow_state(flow_id)
                if state in _ENDED:
                    return state
                await listener.wait()

    async def _flow_state(self, flow_id: FlowId) -> c.FlowState:
        return c.FlowState((await self._read_flow("describe_flow", flow_id)).mapping(0)["public_flow_state"])
