"""Durable steps: the result of a function is recorded once per execution; later passes get the record.

`changed_steps` decides about a step that has changed since it was recorded: `safe`, `keep`, `rerun` or `fail`.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from types import FunctionType
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec

from flowfabric import tracing
from flowfabric.client.tasks import payloads
from flowfabric.client.tasks.task import Task
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.errors import Invalid, InvalidInput
from flowfabric.worker.attempts.outcomes import INVALID_RESULT, Fail
from flowfabric.worker.durable import changed_steps
from flowfabric.worker.durable.failed_steps import FAILED_STEPS
from flowfabric.worker.durable.journal import RESERVED, Journal
from flowfabric.worker.durable.step_output import StepRun
from flowfabric.worker.executors.handler_codec import reader
from flowfabric.worker.executors.threads import is_async

_logger: Final = logging.getLogger("flowfabric.worker")
_NAME_MAX_BYTES: Final = limits.STEP_NAME_MAX_BYTES - len(FAILED_STEPS)


def begin(
    journal: Journal, name: str, function: Any, args: tuple[Any, ...], returns: Any, was: str | None, caller: str
) -> Coroutine[Any, Any, Any]:
    """Number the step now; the returned coroutine runs it or finds its record."""
    journal.check("ctx.step")
    _check_name("name", name)
    if was is not None:
        _check_name("was", was)
    if not callable(function):
        if inspect.iscoroutine(function):
            function.close()
        raise InvalidInput("fn", type(function), "must be a function; its arguments follow it: ctx.step(name, fn, 1)")
    return _Step(journal, name, function, args, returns, was, caller).run()


class _Step:
    """One step of one pass."""

    def __init__(
        self,
        journal: Journal,
        name: str,
        function: Any,
        args: tuple[Any, ...],
        returns: Any,
        was: str | None,
        caller: str,
    ) -> None:
        self._journal = journal
        self._function = function.function if isinstance(function, Task) else function
        self._args = args
        self._was = was
        self._digest = digest_of(args)
        self._caller = caller
        self._decode = reader(_result_type(self._function, returns), "returns")
        self._field = f"result of step {name!r}"
        self._wait = journal.left_wait
        self._at = journal.take(name, _Call(self._function, self._digest), was)

    async def run(self) -> Any:
        try:
            await self._journal.loaded()
            await self._journal.failures.raise_next(self._at, self._digest, self._was)
            record = self._journal.find(self._at, self._was)
            if record is not None:
                return await self._settle(record)
            await changed_steps.check_new(self._journal, self._at)
            return await self._run()
        except BaseException:
            self._journal.give_back(self._at)
            raise

    async def _run(self, *, replace: bool = False) -> Any:
        """Run the function and record its result. Note an exception, which a later pass may have to raise again."""
        async with self._journal.gate.beside():
            self._journal.attempt.check()
            run = self._journal.outputs.begin()
            with tracing.span("step", self._at.name):
                try:
                    return await self._run_and_record(run, replace)
                except Exception as error:
                    self._journal.failures.note(self._at, self._digest, error, run)
                    raise
                except CancelledError:  # such as a timeout of the handler, which may take another way now
                    self._journal.failures.note_break(self._at, self._digest)
                    raise

    async def _run_and_record(self, run: StepRun, replace: bool) -> Any:
        payload = self._encoded(await self._call(run))
        kept = self._decoded(payload)  # first: a result that cannot be decoded must not be recorded
        await self._journal.failures.mark(self._at)
        recorded = await self._record(run, payload, replace)
        return kept if recorded == payload else self._decoded(recorded)

    async def _call(self, run: StepRun) -> Any:
        with self._journal.running(run):
            if is_async(self._function):
                return await self._function(*self._args)
            value = await self._journal.services.threads.run(lambda: self._function(*self._args))
            return await value if inspect.isawaitable(value) else value

    def _encoded(self, value: Any) -> bytes:
        try:
            return limits.payload(self._field, payloads.encode(value, self._field), limits.STEP_RESULT_MAX_BYTES)
        except InvalidInput as error:
            raise _unusable(error) from error

    def _decoded(self, payload: bytes) -> Any:
        try:
            return payloads.decode(payload, self._decode, self._field)
        except InvalidInput as error:
            raise _unusable(error) from error

    async def _record(self, run: StepRun, payload: bytes, replace: bool) -> bytes:
        digest = changed_steps.packed(self._digest, self._caller, self._wait)
        record = partial(self._journal.record, self._at, payload, digest=digest, replace=replace)
        try:
            if not self._journal.outputs.must_keep(self._at, run):
                return await record()
            return await self._journal.services.tasks.see_through(lambda: self._record_with_output(run, record))
        except Invalid as error:  # such as too many steps: it has run, so no retry may run it again
            raise _unusable(error) from error

    async def _record_with_output(self, run: StepRun, record: Callable[[], Awaitable[bytes]]) -> bytes:
        """The output first: a recorded step is skipped, so its output must be known by then."""
        await self._journal.outputs.keep(self._at, run)
        return await record()

    # Changes between versions.

    async def _settle(self, record: c.StepRecord) -> Any:
        """The recorded result, unless the step changed and must be run again."""
        try:
            value, unreadable = payloads.decode(record.payload, self._decode, self._field), None
        except InvalidInput as error:
            value, unreadable = None, error
        recorded = changed_steps.inputs_digest(record)
        is_same = recorded == self._digest or not (recorded and self._digest)
        if is_same and unreadable is None:
            await self._journal.outputs.show_recorded(record)
            return value
        choice = await self._journal.changed_steps()
        if choice == "rerun":
            return await self._run(replace=True)
        problem = f"cannot be read as recorded ({unreadable})" if unreadable else "was recorded with other inputs"
        if choice == "fail" or unreadable is not None:
            raise changed_steps.other(self._at, problem, choice)
        who = self._journal.attempt.execution_id.short
        _logger.warning("step %s of %s %s; using the record", self._at, who, problem)
        await self._journal.outputs.show_recorded(record)
        return value


class _Call:
    """A function and its inputs, compared within one pass only; closures are compared by their contents."""

    __slots__ = ("_digest", "_function", "_held")

    def __init__(self, function: Any, digest: str) -> None:
        self._function, self._digest, self._held = function, digest, _held_by(function)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Call) or self._digest != other._digest:
            return False
        if not (isinstance(self._function, FunctionType) and isinstance(other._function, FunctionType)):
            return bool(self._function == other._function)
        return (
            self._function.__code__ is other._function.__code__
            and len(self._held) == len(other._held)
            and all(mine is theirs for mine, theirs in zip(self._held, other._held, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]


def _held_by(function: Any) -> list[Any]:
    if not isinstance(function, FunctionType):
        return []
    held = list(function.__defaults__ or ())
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # an empty cell
            held.append(cell.cell_contents)
    return held


def _result_type(function: Callable[..., Any], returns: Any) -> Any:
    """The given type, else the function's return annotation."""
    if returns is not None:
        return returns
    if isinstance(function, type):
        return function
    while isinstance(function, partial):
        function = function.func
    try:
        if "return" not in getattr(function, "__annotations__", ()):
            return Any
        kind = get_type_hints(function, include_extras=True)["return"]
    except NameError as cause:
        problem = f"has an annotation that cannot be resolved: {cause}; say returns=..."
        raise InvalidInput("fn", function, problem) from cause
    return get_args(kind)[-1] if get_origin(kind) in (Awaitable, Coroutine) else kind


def digest_of(args: tuple[Any, ...]) -> str:
    """A digest of the inputs; "" if they cannot be compared."""
    try:
        return hashlib.sha256(_comparable(args)).hexdigest()
    except payloads.UNWRITABLE:
        return ""


def _stand_in(value: object) -> object:
    """For values without a JSON form, like clients and files: only their types count."""
    try:
        return msgspec.Raw(payloads.to_json(value))
    except payloads.UNWRITABLE:
        return f"{type(value).__module__}.{type(value).__qualname__}"


_comparable: Final = msgspec.json.Encoder(enc_hook=_stand_in, order="deterministic").encode


def _check_name(field: str, name: str) -> None:
    limits.label(field, name, 1, _NAME_MAX_BYTES)
    if name.startswith(RESERVED):
        raise InvalidInput(field, name, f"must not begin with {RESERVED!r}, which is reserved")


def _unusable(error: Invalid) -> Fail:
    return Fail(str(error), category=INVALID_RESULT, retryable=False)
