"""How an attempt ends: by the value that its handler returns, or by the exception that it raises.

A value completes the execution. A handler raises `Retry`, `Snooze`, `Fail` or `Cancel` to choose another outcome. They
are not in `flowfabric.errors`, because they are not errors of the library. Any other exception is a failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from flowfabric.client.tasks.options import Duration, moment_ms, ms
from flowfabric.core import limits
from flowfabric.core.contracts.failures import FailureDetail
from flowfabric.errors import BudgetExceeded, InvalidInput

# Failure categories that the worker sets; a retry policy can name them in `retryable_categories`.
ERROR: Final = "error"
TIMEOUT: Final = "timeout"
CRASHED: Final = "crashed"
INVALID_PAYLOAD: Final = "invalid_payload"
INVALID_RESULT: Final = "invalid_result"
STEP_CHANGED: Final = "step_changed"
BUDGET_EXCEEDED: Final = "budget_exceeded"
NOT_AWAITED: Final = "not_awaited"
EXIT: Final = "exit"  # the handler raised what would end a program

DEFAULT_CATEGORIES: Final[Mapping[type[BaseException], str]] = {
    TimeoutError: TIMEOUT,
    BudgetExceeded: BUDGET_EXCEEDED,
    SystemExit: EXIT,
    KeyboardInterrupt: EXIT,
    GeneratorExit: EXIT,
}


class Outcome(Exception):
    """Raised by a handler to choose how its attempt ends."""

    failure_detail: FailureDetail | None = None  # of one that was raised in another process

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Retry(Outcome):
    """Fail this attempt and retry it, after `after` if given; the retry policy limits how often."""

    def __init__(self, reason: str = "", *, after: Duration | None = None) -> None:
        super().__init__(reason)
        self.after_ms = None if after is None else ms("after", after)


class Snooze(Outcome):
    """Hand the lease back and resume the same attempt later: after `for_`, or at `until`."""

    def __init__(self, reason: str = "", *, for_: Duration | None = None, until: datetime | None = None) -> None:
        super().__init__(reason)
        if (for_ is None) == (until is None):
            raise InvalidInput("for_", for_, "give either for_ or until")
        self.for_ms = None if for_ is None else ms("for_", for_)
        self.until_ms = None if until is None else moment_ms("until", until)


class Fail(Outcome):
    """Fail this attempt with a category; with `retryable=False` the execution fails, whatever its policy says."""

    def __init__(self, reason: str = "", *, category: str = ERROR, retryable: bool = True) -> None:
        super().__init__(reason)
        self.category = limits.label("category", category, 1, limits.FAILURE_CATEGORY_MAX_BYTES)
        self.retryable = retryable


class Cancel(Outcome):
    """End the execution as cancelled."""


class Interrupted(BaseException):
    """Raised by the next call of the context in a thread whose attempt is over.

    Like asyncio.CancelledError it is not an Exception, so `except Exception` does not keep the thread alive.
    """


class Suspended(BaseException):
    """Unwinds a handler whose execution is suspended: the handler will be run again from its top.

    The attempt has already left this worker, so catching it changes nothing: every later call of the context raises it
    again. It is not an Exception, so `except Exception` does not catch it.
    """


class TaskExited(BaseException):
    """Replaces SystemExit and KeyboardInterrupt of a task that a handler started: asyncio stops the loop on those."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class StepFailed(Exception):
    """Replaces the exception of a step in an earlier pass whose class is not loaded in this process."""

    def __init__(self, step: str, kind: str, message: str) -> None:
        super().__init__(f"step {step} failed with {kind}: {message}")
        self.step = step
        self.kind = kind
        self.message = message


class RemoteError(Exception):
    """An exception of a handler in another process: type and message as text, its classes by name."""

    failure_detail: FailureDetail | None = None

    def __init__(self, reason: str, names: Sequence[str], category: str) -> None:
        super().__init__(reason)
        self.names = names
        self.category = category


def spoken(error: BaseException) -> BaseException:
    """The error to report: of an exception group the first outcome in it, if there is one."""
    while isinstance(error, BaseExceptionGroup) and (said := error.subgroup(Outcome)) is not None:
        error = said.exceptions[0]
    return error.error if isinstance(error, TaskExited) else error


def category_of(error: BaseException, categories: Mapping[type[BaseException], str]) -> str:
    """The category of the nearest class in the error's MRO that has one."""
    if isinstance(error, RemoteError):
        named = {kind.__qualname__: category for kind, category in categories.items()}
        return next((named[name] for name in error.names if name in named), error.category)
    for kind in type(error).__mro__:
        if kind in categories:
            return categories[kind]
        if kind in DEFAULT_CATEGORIES:
            return DEFAULT_CATEGORIES[kind]
    return ERROR


def reason_of(error: BaseException) -> str:
    """Type and message of an error, for the store."""
    try:
        said = str(error)
    except BaseException:  # it is the handler's code, too
        said = "(str() of the exception failed)"
    if isinstance(error, Outcome | RemoteError):
        return bounded(said or type(error).__name__)
    return bounded(f"{type(error).__name__}: {said}" if said else type(error).__name__)


def bounded(text: str, high: int = limits.REASON_MAX_BYTES) -> str:
    """`text` without characters that a store cannot keep, cut to its limit."""
    data = text.replace("\0", "").encode(errors="replace")
    if len(data) <= high:
        return data.decode()
    return data[: high - 3].decode(errors="ignore") + "…"
