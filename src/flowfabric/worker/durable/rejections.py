"""Signals that ended a wait and do not fit its type: they are rejected, and the wait continues.

Clients compare an answer with the declared type before they deliver it. Programs that call the store by themselves need
not, and a signal may arrive before the handler declares its wait.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.forms import WaitForm
from flowfabric.core.ids import SuspensionId
from flowfabric.core.rules.waits import answers
from flowfabric.errors import InvalidAnswer
from flowfabric.worker.attempts.outcomes import Fail
from flowfabric.worker.durable.answer_types import form_of
from flowfabric.worker.durable.journal import Journal
from flowfabric.worker.durable.occurrences import Occurrence
from flowfabric.worker.durable.signals import Signal, WaitEnd

_AT_ONCE: Final = limits.SCAN_LIMIT_MAX


class Over(NamedTuple):
    """How a wait ended, and its signals of the declared type."""

    end: WaitEnd
    signals: tuple[Signal[Any], ...]


async def fitting(journal: Journal, at: Occurrence, end: WaitEnd, kind: Any, question: str) -> Over:
    """The end of the wait once all its signals fit. Until then the execution is suspended again."""
    while True:
        signals, misfits = _read(end, kind)
        if not misfits:
            return Over(end, signals)
        failure = misfits[0][1]
        if not journal.may_go_on(at):
            raise failure  # a later wait has begun, so the type of this one has changed since
        form = form_of(kind, question)
        rejected = [_rejected(each, failure, form) for each, failure in misfits[:_AT_ONCE]]
        end = await _reject(journal, at, rejected, form)


def _read(end: WaitEnd, kind: Any) -> tuple[tuple[Signal[Any], ...], list[tuple[c.ResumeSignal, Fail]]]:
    """Its signals of this kind, and those that are not."""
    signals, misfits = [], []
    for each in () if end.is_timeout else end.told:
        try:
            signals.append(Signal.read(each, kind))
        except Fail as failure:
            misfits.append((each, failure))
    return tuple(signals), misfits


def _rejected(signal: c.ResumeSignal, failure: Fail, form: WaitForm | None) -> c.RejectedSignal:
    problem = _problem(signal, form) or str(failure)
    short = problem.encode()[: limits.REJECTION_MAX_BYTES].decode(errors="ignore")
    return c.RejectedSignal(signal_id=signal.signal_id, problem=short)


def _problem(signal: c.ResumeSignal, form: WaitForm | None) -> str:
    """As a client would have been told."""
    try:
        if form is not None:
            answers.check(form, signal.payload, signal.payload_encoding)
    except InvalidAnswer as refusal:
        return refusal.message
    return ""


async def _reject(journal: Journal, at: Occurrence, rejected: list[c.RejectedSignal], form: WaitForm | None) -> WaitEnd:
    """active -> suspended; if the other signals meet the condition, the attempt continues at once."""
    attempt = journal.attempt
    args = c.RejectSignalsArgs(
        execution_id=attempt.execution_id,
        fence=attempt.fence,
        suspension_id=SuspensionId.new(),
        rejected=tuple(rejected),
        form=form,
    )
    async with journal.gate.alone():
        attempt.check()
        await journal.keep_rest()
        journal.forget_latest()
        await journal.ask(journal.services.suspender.reject(attempt, args))
        attempt.check()
        await journal.read_latest()
    end = journal.end_of(at)
    assert end is not None, "a suspension that was satisfied at once is the latest one"
    return end
