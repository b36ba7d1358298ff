"""Durable steps: what a function returns is recorded once in the life of an execution; later passes get the record.

What becomes of a step that has changed since it was recorded is the run's choice: `keep`, `rerun` or `fail`.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
from asyncio import sleep
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec

from flowfabric import tracing
from flowfabric.client import payloads
from flowfabric.client.tasks import Task
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.errors import Invalid, InvalidInput
from flowfabric.worker.calls import reader
from flowfabric.worker.failures import ENCODING as FAILURE
from flowfabric.worker.journal import CHANGED_STEPS_TAG, RESERVED, Journal
from flowfabric.worker.outcomes import INVALID_RESULT, STEP_CHANGED, Fail
from flowfabric.worker.threads import is_async

_logger: Final = logging.getLogger("flowfabric.worker")


def begin(
    journal: Journal, name: str, function: Any, args: tuple[Any, ...], returns: Any, was: str | None
) -> Coroutine[Any, Any, Any]:
    """Number the step, now, and answer what runs it or finds its record."""
    journal.check("ctx.step")
    _check_name("name", name)
    if was is not None:
        _check_name("was", was)
    if not callable(function):
        if inspect.iscoroutine(function):
            function.close()
        raise InvalidInput("fn", type(function), "must be a function; its arguments follow it: ctx.step(name, fn, 1)")
    return _Step(journal, name, function, args, returns, was).run()


class _Step:
    """One step of one pass."""

    def __init__(
        self, journal: Journal, name: str, function: Any, args: tuple[Any, ...], returns: Any, was: str | None
    ) -> None:
        self._journal = journal
        self._function = function.function if isinstance(function, Task) else function
        self._args = args
        self._was = was
        self._digest = digest_of(args)
        self._decode = reader(_result_type(self._function, returns), "returns")
        self._field = f"result of step {name!r}"
        self._at = journal.take(name, was)
        self._survived = journal.failures.unrecorded  # the handler has gone on from these, or goes beside them

    async def run(self) -> Any:
        await self._journal.loaded()
        record = self._journal.find(self._at, self._was)
        if record is None:
            await self._check_order()
        elif record.encoding == FAILURE:
            await self._raise_again(record)
        else:
            return await self._settle(record)
        return await self._run()

    async def _run(self) -> Any:
        """Run the function and record its result, in place of a record that does not count."""
        async with self._journal.gate.beside():
            self._journal.attempt.check()
            with tracing.span("step", self._at.name):
                try:
                    return await self._run_and_record()
                except Exception as error:
                    self._journal.failures.note(self._at, self._digest, error)
                    raise

    async def _run_and_record(self) -> Any:
        payload = self._encoded(await self._call())
        kept = self._decoded(payload)  # before it is recorded: what cannot be read must not be kept
        recorded = await self._record(payload)
        return kept if recorded == payload else self._decoded(recorded)

    async def _call(self) -> Any:
        with self._journal.running_step():
            if is_async(self._function):
                return await self._function(*self._args)
            value = await self._journal.home.threads.run(lambda: self._function(*self._args))
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

    async def _record(self, payload: bytes) -> bytes:
        replace = self._journal.find(self._at, self._was) is not None
        try:
            await self._journal.failures.keep(self._survived)
            return await self._journal.record(self._at, payload, digest=self._digest, replace=replace)
        except Invalid as error:  # such as one step too many: it has run, and no retry may run it again
            raise _unusable(error) from error

    # Changes between versions.

    async def _settle(self, record: c.StepRecord) -> Any:
        """The recorded result, unless it is to be made again."""
        try:
            value, unreadable = payloads.decode(record.payload, self._decode, self._field), None
        except InvalidInput as error:
            value, unreadable = None, error
        if self._has_inputs_of(record) and unreadable is None:
            return value
        choice = await self._journal.changed_steps()
        if choice == "rerun":
            return await self._run()
        problem = f"cannot be read as recorded ({unreadable})" if unreadable else "was recorded with other inputs"
        if choice == "fail" or unreadable is not None:
            raise self._changed(problem, choice)
        _logger.warning("step %s of %s %s; the record counts", self._at, self._journal.attempt.execution_id, problem)
        return value

    def _has_inputs_of(self, record: c.StepRecord) -> bool:
        return record.input_digest == self._digest or not (record.input_digest and self._digest)

    async def _raise_again(self, record: c.StepRecord) -> None:
        """Raise what was recorded, if it counts; otherwise the step is run again, as one with other inputs is."""
        if not self._has_inputs_of(record):
            await self._check_order()
        elif failure := self._journal.failures.counted(record):
            raise failure.error(self._at)
        else:
            self._journal.expect_another_way()

    async def _check_order(self) -> None:
        """With `fail`, a step without a record must not come before recorded ones: some name has changed."""
        if self._journal.left_over() is None:
            return
        await sleep(0)  # those that go beside it may be about to be called
        later = self._journal.left_over()
        if later is not None and await self._journal.changed_steps() == "fail":
            raise self._changed(f"has no record, while step {later!r} is recorded and was not come to", "fail")

    def _changed(self, problem: str, choice: str) -> Fail:
        advice = f"with the tag {CHANGED_STEPS_TAG} the execution chooses keep, rerun or fail"
        reason = f"step {self._at} {problem}; changed_steps is {choice!r}; {advice}"
        return Fail(reason, category=STEP_CHANGED, retryable=False)


def _result_type(function: Callable[..., Any], returns: Any) -> Any:
    """The given type, else what the function says it returns."""
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
    """What tells whether the inputs are still the same; "" when they cannot be compared."""
    try:
        return hashlib.sha256(_comparable(args)).hexdigest()
    except payloads.UNWRITABLE:
        return ""


def _stand_in(value: object) -> object:
    """For what JSON does not know by itself; clients, files and the like are told apart by their types only."""
    try:
        return msgspec.Raw(payloads.to_json(value))
    except payloads.UNWRITABLE:
        return f"{type(value).__module__}.{type(value).__qualname__}"


_comparable: Final = msgspec.json.Encoder(enc_hook=_stand_in, order="deterministic").encode


def _check_name(field: str, name: str) -> None:
    limits.label(field, name, 1, limits.STEP_NAME_MAX_BYTES)
    if name.startswith(RESERVED):
        raise InvalidInput(field, name, f"must not begin with {RESERVED!r}, as the records of waits do")


def _unusable(error: Invalid) -> Fail:
    return Fail(str(error), category=INVALID_RESULT, retryable=False)
