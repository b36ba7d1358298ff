"""How an attempt ends: by what its handler returns, or by what it raises.

A value completes the execution. `Retry`, `Snooze`, `Fail` and `Cancel` say something else on purpose; they are outside
the tree of `flowfabric.errors`, because they are no errors of the library. Any other exception is a failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from flowfabric.client.tasks.options import Duration, moment_ms, ms
from flowfabric.core import limits
from flowfabric.errors import BudgetExceeded, InvalidInput

# Categories that the worker itself gives; a retry policy can name them in `retryable_categories`.
ERROR: Final = "error"
TIMEOUT: Final = "timeout"
CRASHED: Final = "crashed"
INVALID_PAYLOAD: Final = "invalid_payload"
INVALID_RESULT: Final = "invalid_result"
STEP_CHANGED: Final = "step_changed"
BUDGET_EXCEEDED: Final = "budget_exceeded"

DEFAULT_CATEGORIES: Final[Mapping[type[BaseException], str]] = {
    TimeoutError: TIMEOUT,
    BudgetExceeded: BUDGET_EXCEEDED,
}


class Outcome(Exception):
    """Raised by a handler to say how its attempt ends."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Retry(Outcome):
    """Fail this attempt and try again, `after` that long if it says so; the policy decides how often."""

    def __init__(self, reason: str = "", *, after: Duration | None = None) -> None:
        super().__init__(reason)
        self.after_ms = None if after is None else ms("after", after)


class Snooze(Outcome):
    """Give the lease back and go on later with the same attempt: `for_` so long, or `until` a moment."""

    def __init__(self, reason: str = "", *, for_: Duration | None = None, until: datetime | None = None) -> None:
        super().__init__(reason)
        if (for_ is None) == (until is None):
            raise InvalidInput("for_", for_, "give either for_ or until")
        self.for_ms = None if for_ is None else ms("for_", for_)
        self.until_ms = None if until is None else moment_ms("until", until)


class Fail(Outcome):
    """Fail this attempt with a category; with `retryable=False` the execution ends, whatever its policy is."""

    def __init__(self, reason: str = "", *, category: str = ERROR, retryable: bool = True) -> None:
        super().__init__(reason)
        self.category = limits.label("category", category, 1, limits.FAILURE_CATEGORY_MAX_BYTES)
        self.retryable = retryable


class Cancel(Outcome):
    """End the execution as cancelled."""


class Interrupted(BaseException):
    """What a handler in a thread gets from its next call of the context once its attempt is over.

    Like asyncio.CancelledError it is no Exception, so that `except Exception` does not keep the thread alive.
    """


class Suspended(BaseException):
    """Unwinds a handler whose execution waits from now on: it will be run again from its top, and come back here.

    The attempt has left this worker already, so catching it changes nothing: every later call of the context raises it
    again. It is no Exception, so that `except Exception` does not meet it.
    """


class StepFailed(Exception):
    """In place of what a step raised in an earlier pass, where no class of that name is loaded any more."""

    def __init__(self, step: str, kind: str, message: str) -> None:
        super().__init__(f"step {step} failed with {kind}: {message}")
        self.step = step
        self.kind = kind
        self.message = message


class RemoteError(Exception):
    """An exception of a handler in another process: its type and message as text, its classes by name."""

    def __init__(self, reason: str, names: Sequence[str], category: str) -> None:
        super().__init__(reason)
        self.names = names
        self.category = category


def spoken(error: BaseException) -> BaseException:
    """What counts of an error: of a group, as task groups raise them, the outcome in it if there is one."""
    while isinstance(error, BaseExceptionGroup) and (said := error.subgroup(Outcome)) is not None:
        error = said.exceptions[0]
    return error


def category_of(error: BaseException, categories: Mapping[type[BaseException], str]) -> str:
    """The category of the nearest class of the error that has one."""
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
    """Type and message of an error, as the store keeps them."""
    try:
        said = str(error)
    except Exception:
        said = "(its message cannot be made)"
    if isinstance(error, Outcome | RemoteError):
        return bounded(said or type(error).__name__)
    return bounded(f"{type(error).__name__}: {said}" if said else type(error).__name__)


def bounded(text: str, high: int = limits.REASON_MAX_BYTES) -> str:
    """`text` without what a store cannot keep, cut to its limit."""
    data = text.replace("\0", "").encode(errors="replace")
    if len(data) <= high:
        return data.decode()
    return data[: high - 3].decode(errors="ignore") + "…"
