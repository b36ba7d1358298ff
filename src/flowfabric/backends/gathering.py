"""Single calls made at the same time become batches, and none waits for company: the size follows the load.

A partition has one call of a kind out at a time. An item that finds none out goes at once; those that come while one is
out go together when it returns. So a quiet store sees calls of one item and a busy one full batches, without a timer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast, overload

from flowfabric.backends.ports import BatchPort
from flowfabric.core import batch as b
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.errors import BackendUnavailable, BadReply, FlowFabricError

# Few and small enough to keep the server's other callers waiting for milliseconds only.
PER_CALL = 100
PAYLOAD_BYTES_PER_CALL = 1_048_576  # a bigger payload goes alone

_EndingOrRenewal: TypeAlias = b.FinishArgs | c.RenewLeaseArgs
_Args: TypeAlias = c.CreateExecutionArgs | _EndingOrRenewal
_Send: TypeAlias = Callable[[list[Any]], Awaitable[Sequence[object]]]


class _Item(NamedTuple):
    """What one caller gave, and where it waits for the outcome: a result, or an error to raise."""

    args: _Args
    outcome: asyncio.Future[object]


_Line: TypeAlias = deque[_Item]
_Place: TypeAlias = tuple[_Send, str]  # the kind of call and the partition's tag


class Gatherer:
    """submit, finish and renew one by one over the batches of any store.

    An item has the outcome of the single call. Those of one partition are sent in the order they were given, endings
    and renewals together. A caller that is cancelled takes its item out of the line; what was sent goes on. When a
    whole call fails, each of its callers gets the error.

    `calls`, `items` and `largest` (the biggest call) show how the sizes adapt.
    """

    def __init__(self, port: BatchPort) -> None:
        self.calls = self.items = self.largest = 0
        self._port = port
        self._lines: dict[_Place, _Line] = {}  # those with a call out
        self._tasks: set[asyncio.Task[None]] = set()  # one a line
        self._closed = False

    async def submit(self, args: c.CreateExecutionArgs) -> c.CreateExecutionResult:
        """create_execution."""
        return cast("c.CreateExecutionResult", await self._outcome(self._port.submit_executions, args))

    @overload
    async def finish(self, args: c.CompleteExecutionArgs) -> c.CompleteExecutionResult: ...
    @overload
    async def finish(self, args: c.FailExecutionArgs) -> c.FailExecutionResult: ...
    async def finish(self, args: b.FinishArgs) -> c.CompleteExecutionResult | c.FailExecutionResult:
        """complete_execution or fail_execution."""
        result = await self._outcome(self._finish, args)
        return cast("c.CompleteExecutionResult | c.FailExecutionResult", result)

    async def renew(self, args: c.RenewLeaseArgs) -> c.RenewLeaseResult:
        """renew_lease."""
        return cast("c.RenewLeaseResult", await self._outcome(self._finish, args))

    async def close(self) -> None:
        """Refuse new items and wait until those accepted have their outcomes; the store stays open."""
        self._closed = True
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _outcome(self, send: _Send, args: _Args) -> object:
        if self._closed:
            raise BackendUnavailable("the gatherer is closed", sent=False)
        item = _Item(args, asyncio.get_running_loop().create_future())
        self._stand_in_line((send, args.execution_id.tag), item)
        outcome = await item.outcome
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _stand_in_line(self, place: _Place, item: _Item) -> None:
        if place in self._lines:
            self._lines[place].append(item)
            return
        self._lines[place] = deque([item])
        # It takes its items when it starts to run, so those given in the same turn of the loop go together.
        task = asyncio.create_task(self._serve(place))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, place: _Place) -> None:
        """Call until nobody is left in line."""
        (send, _), line = place, self._lines[place]
        batch: list[_Item] = []
        try:
            while batch := _take(line):
                await self._call(send, batch)
        finally:
            del self._lines[place]
            for item in (*batch, *line):  # some only when this task is cancelled, which the end of the loop does
                item.outcome.cancel()

    async def _call(self, send: _Send, batch: list[_Item]) -> None:
        self.calls += 1
        self.items += len(batch)
        self.largest = max(self.largest, len(batch))
        outcomes: Sequence[object]
        try:
            outcomes = await send([item.args for item in batch])
            if len(outcomes) != len(batch):
                raise BadReply(f"{len(outcomes)} outcomes for {len(batch)} items")
        except Exception as error:  # whatever it is, nobody is left waiting for nothing
            outcomes = [_own(error) for _ in batch]
        for item, outcome in zip(batch, outcomes, strict=True):
            if not item.outcome.done():  # its caller may be gone
                item.outcome.set_result(outcome)

    async def _finish(self, batch: list[_EndingOrRenewal]) -> list[object]:
        endings = [args for args in batch if not isinstance(args, c.RenewLeaseArgs)]
        renewals = [args for args in batch if isinstance(args, c.RenewLeaseArgs)]
        partition = Partition(PartitionFamily.FLOW, batch[0].execution_id.partition_index)
        result = await self._port.finish_executions(
            b.FinishExecutionsArgs(partition=partition, finish=tuple(endings), renew=tuple(renewals))
        )
        finished, renewed = iter(result.finished), iter(result.renewed)
        return [next(renewed if isinstance(args, c.RenewLeaseArgs) else finished) for args in batch]


def _take(line: _Line) -> list[_Item]:
    """The next items that go together, without those whose caller is gone."""
    batch: list[_Item] = []
    renewed: set[ExecutionId] = set()
    payload_bytes = 0
    while line and len(batch) < PER_CALL:
        args, outcome = line[0]
        if outcome.done():
            line.popleft()
            continue
        payload_bytes += _payload_bytes(args)
        if batch and payload_bytes > PAYLOAD_BYTES_PER_CALL:
            break
        if isinstance(args, c.RenewLeaseArgs):
            renewed.add(args.execution_id)
        elif args.execution_id in renewed:
            break  # a store ends before it renews, but this ending came after the renewal
        batch.append(line.popleft())
    return batch


def _payload_bytes(args: _Args) -> int:
    if isinstance(args, c.CreateExecutionArgs):
        return len(args.input_payload)
    return len(args.result_payload or b"") if isinstance(args, c.CompleteExecutionArgs) else 0


def _own(error: Exception) -> Exception:
    """The error for one of several callers, so that each has a traceback and notes of its own; the cause is shared."""
    if not isinstance(error, FlowFabricError):
        return error
    own = type(error).__new__(type(error), *error.args)
    vars(own).update(vars(error))
    own.__cause__ = error
    return own
