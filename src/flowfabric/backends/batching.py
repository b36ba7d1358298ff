"""Combine concurrent single calls into batches whose size adapts to the load.

An item is sent at once unless a call of its partition and kind is in flight; items that arrive meanwhile are sent
together when that call returns. A quiet store gets calls of one item and a busy one full batches, without a timer.
Submits start a second call as soon as enough of them wait: the store works on one while callers of the other continue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast, overload

from flowfabric.backends.ports import BatchPort
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import ExecutionId
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.errors import BackendUnavailable, BadReply, FlowFabricError

# Small enough that the server's other callers wait for milliseconds only.
PER_CALL = 100
PAYLOAD_BYTES_PER_CALL = 1_048_576  # a bigger payload is sent alone
ENOUGH = 32  # waiting items that justify a second call in flight

_EndingOrRenewal: TypeAlias = b.FinishArgs | c.RenewLeaseArgs
_Args: TypeAlias = c.CreateExecutionArgs | _EndingOrRenewal
_Send: TypeAlias = Callable[[list[Any]], Awaitable[Sequence[object]]]


class _Item(NamedTuple):
    """The arguments of one caller, and the future of its outcome: a result, or an error to raise."""

    args: _Args
    outcome: asyncio.Future[object]


class _Kind:
    """A kind of call: how to send it, how many a partition may have in flight, and the partitions with some."""

    def __init__(self, send: _Send, most_calls: int) -> None:
        self.send = send
        self.most_calls = most_calls
        self.lines: dict[str, _Line] = {}


class _Line:
    """A partition's calls of one kind in flight, and the items that wait for the next call."""

    def __init__(self, kind: _Kind, tag: str) -> None:
        self.kind = kind
        self.tag = tag
        self.calls = 1
        self.items: deque[_Item] = deque()

    @property
    def is_due(self) -> bool:
        """Whether the waiting items justify another call."""
        return self.calls < self.kind.most_calls and len(self.items) >= (ENOUGH if self.calls else 1)

    def take(self) -> list[_Item]:
        """The items of the next call; half of many, so that the store has another call to work on."""
        waiting = len(self.items)
        if self.calls > 1 and waiting < ENOUGH:
            return []
        if self.kind.most_calls > 1 and waiting >= 2 * ENOUGH:
            waiting //= 2
        return _take(self.items, min(waiting, PER_CALL))


class Gatherer:
    """Single submit, finish and renew calls over the batch port of any store.

    An item has the outcome of the single call. Items of one partition are sent in the order they were given, endings
    and renewals together. A cancelled caller takes its item out of the queue, unless it was sent. When a whole call
    fails, each of its callers gets the error.

    `calls`, `items` and `largest` (the biggest call) show how the sizes adapt.
    """

    def __init__(self, port: BatchPort) -> None:
        self.calls = self.items = self.largest = 0
        self._port = port
        self._submits = _Kind(self._submit, most_calls=2)
        self._endings = _Kind(self._finish, most_calls=1)  # an ending must not overtake a renewal
        self._tasks: set[asyncio.Task[None]] = set()
        self._quiet = asyncio.Event()  # no call is in flight
        self._quiet.set()
        self._closed = False

    async def submit(self, args: c.CreateExecutionArgs) -> c.CreateExecutionResult:
        """create_execution."""
        return cast("c.CreateExecutionResult", await self._outcome(self._submits, args))

    @overload
    async def finish(self, args: c.CompleteExecutionArgs) -> c.CompleteExecutionResult: ...
    @overload
    async def finish(self, args: c.FailExecutionArgs) -> c.FailExecutionResult: ...
    async def finish(self, args: b.FinishArgs) -> c.CompleteExecutionResult | c.FailExecutionResult:
        """complete_execution or fail_execution."""
        result = await self._outcome(self._endings, args)
        return cast("c.CompleteExecutionResult | c.FailExecutionResult", result)

    async def renew(self, args: c.RenewLeaseArgs) -> c.RenewLeaseResult:
        """renew_lease."""
        return cast("c.RenewLeaseResult", await self._outcome(self._endings, args))

    async def close(self) -> None:
        """Refuse new items and wait for the outcomes of accepted ones; the store stays open."""
        self._closed = True
        await self._quiet.wait()

    async def _outcome(self, kind: _Kind, args: _Args) -> object:
        if self._closed:
            raise BackendUnavailable("the gatherer is closed", sent=False)
        tag = args.execution_id.tag
        line = kind.lines.get(tag)
        outcome = await (self._alone(kind, tag, args) if line is None else self._in_line(line, args))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _alone(self, kind: _Kind, tag: str, args: _Args) -> object:
        """No other call is in flight, so the caller makes the call itself, without a turn of the event loop."""
        line = kind.lines[tag] = _Line(kind, tag)
        self._quiet.clear()
        try:
            (outcome,) = await self._send(kind, [args])
            return outcome
        finally:
            self._end_call(line)

    async def _in_line(self, line: _Line, args: _Args) -> object:
        item = _Item(args, asyncio.get_running_loop().create_future())
        line.items.append(item)
        if line.is_due:
            self._start(line)
        return await item.outcome

    def _start(self, line: _Line) -> None:
        line.calls += 1
        task = asyncio.create_task(self._serve(line))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, line: _Line) -> None:
        """Make calls until too few items are waiting."""
        batch: list[_Item] = []
        try:
            while batch := line.take():
                await self._call(line.kind, batch)
                await asyncio.sleep(0)  # callers that got their outcome may add their next item to this batch
        except asyncio.CancelledError:  # only the end of the event loop cancels it
            for item in (*batch, *line.items):
                item.outcome.cancel()
            line.items.clear()
            raise
        finally:
            self._end_call(line)

    def _end_call(self, line: _Line) -> None:
        line.calls -= 1
        if line.is_due:
            self._start(line)
        if not line.calls:
            del line.kind.lines[line.tag]
        if not self._submits.lines and not self._endings.lines:
            self._quiet.set()

    async def _call(self, kind: _Kind, batch: list[_Item]) -> None:
        outcomes: Sequence[object]
        try:
            outcomes = await self._send(kind, [item.args for item in batch])
        except Exception as error:  # whatever it is, every caller must get an outcome
            outcomes = [_own(error) for _ in batch]
        for item, outcome in zip(batch, outcomes, strict=True):
            if not item.outcome.done():  # its caller may have been cancelled
                item.outcome.set_result(outcome)

    async def _send(self, kind: _Kind, batch: list[_Args]) -> Sequence[object]:
        self.calls += 1
        self.items += len(batch)
        self.largest = max(self.largest, len(batch))
        outcomes = await kind.send(batch)
        if len(outcomes) != len(batch):
            raise BadReply(f"{len(outcomes)} outcomes for {len(batch)} items")
        return outcomes

    async def _submit(self, batch: list[c.CreateExecutionArgs]) -> Sequence[object]:
        return await self._port.submit_executions(batch)

    async def _finish(self, batch: list[_EndingOrRenewal]) -> list[object]:
        endings = [args for args in batch if not isinstance(args, c.RenewLeaseArgs)]
        renewals = [args for args in batch if isinstance(args, c.RenewLeaseArgs)]
        partition = Partition(PartitionFamily.FLOW, batch[0].execution_id.partition_index)
        result = await self._port.finish_executions(
            b.FinishExecutionsArgs(partition=partition, finish=tuple(endings), renew=tuple(renewals))
        )
        finished, renewed = iter(result.finished), iter(result.renewed)
        return [next(renewed if isinstance(args, c.RenewLeaseArgs) else finished) for args in batch]


def _take(line: deque[_Item], most: int) -> list[_Item]:
    """The first items that may share a call, without those of cancelled callers."""
    batch: list[_Item] = []
    renewed: set[ExecutionId] = set()
    payload_bytes = 0
    while line and len(batch) < most:
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
            break  # a store applies endings before renewals, but this ending came after the renewal
        batch.append(line.popleft())
    return batch


def _payload_bytes(args: _Args) -> int:
    if isinstance(args, c.CreateExecutionArgs):
        return len(args.input_payload)
    return len(args.result_payload or b"") if isinstance(args, c.CompleteExecutionArgs) else 0


def _own(error: Exception) -> Exception:
    """A copy of the error for one of several callers, with its own traceback and notes; the cause is shared."""
    if not isinstance(error, FlowFabricError):
        return error
    own = type(error).__new__(type(error), *error.args)
    vars(own).update(vars(error))
    own.__cause__ = error
    return own
