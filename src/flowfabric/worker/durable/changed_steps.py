"""Steps that are not what they were when they were recorded: nothing that was paid for is paid twice by a new version.

The code of a handler may change while its executions wait. A pass finds its records by name, so a new name would run a
step again. Two looks prevent that, with `changed_steps="safe"`, the default, and with `"fail"`:

- Before a step without a record runs, and before a suspension: the function that asked for a recorded step is still
  there, but neither it nor any other function that the handler names has the name of that step.
- Before the execution completes: a recorded step that this pass has not asked for at all.

After a failed step was run again the path may be another one, so that records of the earlier path do not count.
"""

from __future__ import annotations

import hashlib
from asyncio import sleep
from collections.abc import Callable, Sequence
from typing import Final

from flowfabric.core import contracts as c
from flowfabric.core.states import AttemptType
from flowfabric.worker.attempts.attempt import Attempt
from flowfabric.worker.attempts.outcomes import STEP_CHANGED, Fail
from flowfabric.worker.durable.code_names import names_in
from flowfabric.worker.durable.journal import CHANGED_STEPS_TAG, Journal
from flowfabric.worker.durable.occurrences import Occurrence

_WAIT_LENGTH: Final = 12
_MOST_SHOWN: Final = 10


def packed(digest: str, caller: str, wait: str | None) -> str:
    """The digest of a record: of the inputs, of the caller, and of the last wait that the pass has left behind.

    A fork from this step needs the ends of the waits before it (`lib/again/forking.lua`).
    """
    if wait is None:
        return f"{digest}:{caller}"
    return f"{digest}:{caller}:{hashlib.sha1(wait.encode(), usedforsecurity=False).hexdigest()[:_WAIT_LENGTH]}"


def inputs_digest(record: c.StepRecord) -> str:
    return record.input_digest.partition(":")[0]


def _caller(record: c.StepRecord) -> str:
    return record.input_digest.partition(":")[2].partition(":")[0]


async def check_new(journal: Journal, at: Occurrence) -> None:
    """Before a step without a record runs: raise if the code has lost the name of a recorded step."""
    journal.fresh.append(str(at))
    if journal.failures.leads_elsewhere(at) or not journal.missed():
        return
    await sleep(0)  # parallel steps may be about to be called
    if later := journal.left_over():
        await _check_order(journal, at, later)
    await _check_lost(journal)


async def check_wait(journal: Journal) -> None:
    """The same before a suspension. Steps that the code has may come after it: the wait may be a new one."""
    if not journal.failures.led_elsewhere and journal.missed():
        await _check_lost(journal)


async def _check_order(journal: Journal, at: Occurrence, later: str) -> None:
    """With `fail`, a step without a record must not come before recorded steps."""
    if await journal.changed_steps() == "fail":
        problem = f"step {at} has no record, while step {later!r} is recorded and was not reached"
        raise Fail(f"{problem}; {_choice('fail')}", category=STEP_CHANGED, retryable=False)


async def _check_lost(journal: Journal) -> None:
    names, asked = names_in(journal.attempt.handler.task.function), journal.asked_names()
    lost = [
        key
        for key in journal.missed()
        if _caller(journal.recorded(key)) in names.callers and names.has_gone(key[0], asked)
    ]
    if lost and await journal.changed_steps() in ("safe", "fail"):
        raise _fail(lost, journal.fresh)


async def check_end(attempt: Attempt, opened: Journal | None, open_journal: Callable[[], Journal]) -> None:
    """Before an execution completes: raise if this pass has not asked for all recorded steps."""
    if attempt.suspension is not None or attempt.stop is not None:
        return
    told = attempt.work.resumption
    if attempt.work.attempt_type is AttemptType.INITIAL or (told is not None and told.step_count == 0):
        return
    journal = opened or open_journal()
    if opened is None and not await journal.has_steps():
        return
    await journal.loaded()
    missed = journal.missed()
    if missed and not journal.failures.led_elsewhere and await journal.changed_steps() in ("safe", "fail"):
        raise _fail(missed, journal.fresh)


def other(at: Occurrence, problem: str, choice: str) -> Fail:
    """A recorded step has other inputs, or its record cannot be read."""
    return Fail(f"step {at} {problem}; {_choice(choice)}", category=STEP_CHANGED, retryable=False)


def _choice(choice: str) -> str:
    return f"changed_steps is {choice!r}; with the tag {CHANGED_STEPS_TAG} the execution chooses another"


def _fail(old: Sequence[tuple[str, int]], new: Sequence[str]) -> Fail:
    """No retry of the policy would help; handle.retry() does, after one of the remedies."""
    problem = f"the code no longer asks for the recorded step {_shown(old)}"
    asked = f"; new in this pass: {', '.join(new[:_MOST_SHOWN])}" if new else ""
    advice = (
        f"if it was renamed, say was={old[0][0]!r} where ctx.step has the new name; if it is not wanted any more, set "
        f"changed_steps='keep' for the task, or the tag {CHANGED_STEPS_TAG}=keep; then retry the execution: it "
        "continues with its records"
    )
    return Fail(f"{problem}{asked}; {advice}", category=STEP_CHANGED, retryable=False)


def _shown(keys: Sequence[tuple[str, int]]) -> str:
    names = ", ".join(f"{name}#{number}" for name, number in keys[:_MOST_SHOWN])
    return names if len(keys) <= _MOST_SHOWN else f"{names} and {len(keys) - _MOST_SHOWN} more"
