"""A handler waits for signals or for a time: the execution is suspended and holds no worker.

The handler is run again when the wait is over. The suspension carries the name of the wait, by which it is found then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import EllipsisType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypedDict

from flowfabric import tracing
from flowfabric.client.tasks.options import Duration, ms
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.codec import relocate
from flowfabric.core.conditions import ByName, ResumeCondition, Single, TimeoutOnly, referenced_waitpoint_keys
from flowfabric.core.forms import WaitForm
from flowfabric.core.ids import SuspensionId, WaitpointKey
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.errors import FlowFabricError, InvalidInput
from flowfabric.worker.durable.answer_types import form_of
from flowfabric.worker.durable.changed_steps import check_wait
from flowfabric.worker.durable.journal import Journal
from flowfabric.worker.durable.occurrences import Occurrence
from flowfabric.worker.durable.rejections import Over, fitting
from flowfabric.worker.durable.signals import ResumedWithoutSignal, Signal, SignalTimeout, WaitEnd, Waitpoint
from flowfabric.worker.executors.handler_codec import reader

OnTimeout: TypeAlias = Literal["raise", "fail", "cancel", "expire", "escalate"]
Reason: TypeAlias = c.SuspensionReasonCode | str

_BEHAVIORS: Final[dict[str, TimeoutBehavior]] = {
    "raise": TimeoutBehavior.AUTO_RESUME_WITH_TIMEOUT_SIGNAL,
    "fail": TimeoutBehavior.FAIL,
    "cancel": TimeoutBehavior.CANCEL,
    "expire": TimeoutBehavior.EXPIRE,
    "escalate": TimeoutBehavior.ESCALATE,
}
# Fields of a suspension, as the handler's keyword arguments.
_KEYWORDS: Final = {
    "resume_condition": "condition",
    "waitpoints": "condition",
    "reason_code": "reason",
    "timeout_ms": "timeout",
}
# Refusals of a pending waitpoint.
_UNUSABLE: Final = frozenset({"pending_waitpoint_expired", "waitpoint_not_pending", "waitpoint_not_found"})


class WaitOptions(TypedDict, total=False):
    """Options of a wait. Without `timeout` it never times out.

    `on_timeout` needs a `timeout`, which may be None. The page of the waitpoint's link shows `question` to a person.
    """

    timeout: Duration | None
    on_timeout: OnTimeout
    reason: Reason
    question: str


class Terms(NamedTuple):
    """The options in the store's terms."""

    reason: Reason = c.SuspensionReasonCode.WAITING_FOR_SIGNAL
    timeout_ms: int | None = None
    behavior: TimeoutBehavior = TimeoutBehavior.FAIL
    question: str = ""


def _terms(
    *,
    timeout: Duration | EllipsisType | None = ...,
    on_timeout: str | None = None,
    reason: Reason = c.SuspensionReasonCode.WAITING_FOR_SIGNAL,
    question: str = "",
) -> Terms:
    if question != "":
        limits.text("question", question, 0, limits.QUESTION_MAX_BYTES)
    behavior = _BEHAVIORS.get("raise" if on_timeout is None else on_timeout)
    if behavior is None:
        raise InvalidInput("on_timeout", on_timeout, f"must be one of {', '.join(_BEHAVIORS)}")
    if timeout is ... and on_timeout is not None:
        raise InvalidInput("on_timeout", on_timeout, "needs timeout; without it the wait never times out")
    if timeout is None or timeout is ...:
        return Terms(reason, question=question)
    return Terms(reason, ms("timeout", timeout, low=1), behavior, question)


class Wait(NamedTuple):
    """A wait: its condition, its waitpoints and its terms."""

    condition: ResumeCondition
    waitpoints: tuple[c.WaitpointBinding, ...]
    terms: Terms


async def wait_for_signal(
    journal: Journal, name: str, kind: Any, at: Waitpoint | None, options: WaitOptions
) -> Signal[Any]:
    """Wait for the signal of this name, on a new waitpoint unless `at` is given."""
    terms = _terms(**options)

    def wait() -> Wait:
        place = c.FreshWaitpoint.new() if at is None else _made_before(at)
        assert place.waitpoint_key is not None
        return Wait(Single(place.waitpoint_key, ByName(name)), (place,), terms)

    end, signals = await wait_until_over(journal, "ctx.wait_for_signal", f"signal:{name}", wait, kind, terms.question)
    if at is not None:
        journal.used.add(at.id)  # the end of the wait closed it
    if end.is_timeout:
        raise SignalTimeout(f"no signal {name!r} came in time")
    if not signals:
        raise ResumedWithoutSignal(f"an operator ended the wait for signal {name!r}")
    return signals[0]


async def wait_for(
    journal: Journal, condition: ResumeCondition, kind: Any, options: WaitOptions
) -> tuple[Signal[Any], ...]:
    """The signals that met the condition, in order; empty if an operator ended the wait."""
    terms = _terms(**options)
    places = bindings(condition, journal.open_waitpoints)
    end, signals = await wait_until_over(
        journal, "ctx.wait_for", "condition", lambda: Wait(condition, places, terms), kind, terms.question
    )
    journal.used.update(place.waitpoint_id for place in places)
    if end.is_timeout:
        raise SignalTimeout("not enough signals came in time")
    return signals


async def sleep(journal: Journal, duration: Duration) -> None:
    duration_ms = ms("duration", duration)
    if duration_ms:
        terms = Terms(c.SuspensionReasonCode.STEP_BOUNDARY, duration_ms, TimeoutBehavior.AUTO_RESUME)
        await wait_until_over(
            journal, "ctx.sleep", "sleep", lambda: Wait(TimeoutOnly(), (c.FreshWaitpoint.new(),), terms)
        )


def bindings(condition: ResumeCondition, made: Mapping[WaitpointKey, Waitpoint]) -> tuple[c.WaitpointBinding, ...]:
    """The waitpoints of a condition, pending or new; one new waitpoint if it names none."""
    keys = referenced_waitpoint_keys(condition)
    if not keys:
        return (c.FreshWaitpoint.new(),)
    return tuple(_made_before(made[key]) if key in made else c.FreshWaitpoint.new(key) for key in keys)


def _made_before(at: Waitpoint) -> c.PendingWaitpoint:
    if not isinstance(at, Waitpoint):
        raise InvalidInput("at", type(at), "must be a waitpoint from ctx.waitpoint")
    return c.PendingWaitpoint(waitpoint_id=at.id, waitpoint_key=at.key)


async def wait_until_over(
    journal: Journal, what: str, name: str, make: Callable[[], Wait], kind: Any = Any, question: str = ""
) -> Over:
    """How the wait ended, with signals of this kind. Until then `Suspended` unwinds the handler."""
    journal.check(what)
    reader(kind, "type")  # a type that no answer can have is refused now
    at = journal.take(name)
    try:
        await journal.loaded()
        end = journal.end_of(at) or await _suspend(journal, at, make(), form_of(kind, question))
        over = await fitting(journal, at, end, kind, question)
        journal.left_wait = str(at)
        return over
    except BaseException:
        journal.give_back(at)
        raise


async def _suspend(journal: Journal, at: Occurrence, wait: Wait, form: WaitForm | None) -> WaitEnd:
    """active -> suspended; if early signals meet the condition, the attempt continues at once."""
    try:
        args = _suspension(journal, at, wait, form)
    except InvalidInput as error:
        raise relocate(error, _KEYWORDS.get(error.field, error.field)) from None
    async with journal.gate.alone():
        journal.attempt.check()
        await check_wait(journal)
        await journal.keep()
        try:
            await journal.ask(journal.services.suspender.suspend(journal.attempt, args))
        except FlowFabricError as refusal:
            if refusal.code not in _UNUSABLE:
                raise
            raise _unusable(journal, wait) from refusal
        journal.attempt.check()
        await journal.read_latest()
    end = journal.end_of(at)
    assert end is not None, "a suspension that was satisfied at once is the latest one"
    tracing.link(signal.correlation_id for signal in end.signals)
    return end


def _suspension(journal: Journal, at: Occurrence, wait: Wait, form: WaitForm | None) -> c.SuspendExecutionArgs:
    attempt, terms, pointer = journal.attempt, wait.terms, str(at)
    return c.SuspendExecutionArgs(
        execution_id=attempt.execution_id,
        fence=attempt.fence,
        attempt_index=attempt.attempt_index,
        suspension_id=SuspensionId.new(),
        waitpoints=wait.waitpoints,
        resume_condition=wait.condition,
        reason_code=terms.reason,  # type: ignore[arg-type]  # checked there
        timeout_ms=terms.timeout_ms,
        timeout_behavior=terms.behavior,
        continuation_metadata_pointer=pointer,
        idempotency_key=pointer,
        form=form,
        issue_tokens=False,  # this pass ends, so no one would read them
    )


def _unusable(journal: Journal, wait: Wait) -> InvalidInput:
    made = [place for place in wait.waitpoints if isinstance(place, c.PendingWaitpoint)]
    keys = ", ".join(str(place.waitpoint_key) for place in made)
    if any(place.waitpoint_id in journal.used for place in made):
        return InvalidInput("waitpoint", keys, "was already used by a wait; make another one with ctx.waitpoint")
    return InvalidInput("waitpoint", keys, "expired before the wait began; raise expires_in of ctx.waitpoint")
