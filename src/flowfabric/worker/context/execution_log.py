"""The logger of an attempt, and the capture of what its handler prints and logs elsewhere."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TextIO

from flowfabric.core import limits

TASK_LOGGER: Final = "flowfabric.task"
PRINTED: Final = "print"

Keep = Callable[[int, str, str], None]  # level, logger and message

_current: ContextVar[Capture | None] = ContextVar("flowfabric_log_capture", default=None)


class ExecutionLog(logging.LoggerAdapter[logging.Logger]):
    """A logger whose lines name the execution. Its records are kept from a level on, whatever logging is set up."""

    def __init__(self, facts: Mapping[str, object], level: int, keep: Keep) -> None:
        super().__init__(logging.getLogger(TASK_LOGGER), facts)
        self._level = level
        self._keep = keep

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        facts = dict(self.extra or {})
        kwargs["extra"] = {**facts, **kwargs.get("extra", {})}
        return f"{facts['task']} {facts['execution_id']}: {msg}", kwargs

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if level >= self._level:
            self._keep(level, TASK_LOGGER, _text(msg, args, kwargs.get("exc_info")))
        # This method is one more call between the handler and the logger.
        super().log(level, msg, *args, **kwargs | {"stacklevel": kwargs.get("stacklevel", 1) + 1})


class Capture:
    """Where the output of one attempt goes, from any thread that runs in its context."""

    def __init__(self, keep: Keep) -> None:
        self.keep = keep
        self._partial = ""

    def printed(self, text: str) -> None:
        """Keep whole lines; the rest waits for its end."""
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            self.keep(logging.INFO, PRINTED, line)
        if len(self._partial) > limits.LOG_MESSAGE_MAX_BYTES:
            self.finish()

    def finish(self) -> None:
        """Keep a last line that was not ended."""
        if self._partial:
            self.keep(logging.INFO, PRINTED, self._partial)
            self._partial = ""


def begin_capture(keep: Keep) -> Capture:
    """From now on, output in this context belongs to an attempt."""
    capture = Capture(keep)
    _current.set(capture)
    return capture


class _Tee:
    """Standard output that also goes to the attempt that printed it."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        capture = _current.get()
        if capture is not None:
            capture.printed(text)
        return self._out.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


class _Records(logging.Handler):
    """Keeps records of other loggers that a handler makes."""

    def emit(self, record: logging.LogRecord) -> None:
        capture = _current.get()
        if capture is not None and record.name != TASK_LOGGER:  # records of ctx.log are kept already
            capture.keep(record.levelno, record.name, _text(record.msg, record.args, record.exc_info))


@contextmanager
def capturing(*, prints: bool, loggers: Sequence[str]) -> Iterator[None]:
    """While a worker runs: divert what attempts print and log. Output outside of attempts is left alone."""
    records = _Records()
    named = [logging.getLogger(name or None) for name in loggers]
    tee = _Tee(sys.stdout) if prints else None
    if tee is not None:
        sys.stdout = tee  # it passes everything else on
    for each in named:
        each.addHandler(records)
    try:
        yield
    finally:
        for each in named:
            each.removeHandler(records)
        if tee is not None and sys.stdout is tee:
            sys.stdout = tee._out


def _text(msg: object, args: Any, exc_info: Any) -> str:
    """The message of a record, with its traceback; a message that cannot be formatted is kept as it is."""
    try:
        text = logging.LogRecord("", 0, "", 0, msg, args, None).getMessage()
    except Exception:
        text = f"{msg!r} {args!r}"
    error = sys.exc_info()[1] if exc_info is True else exc_info[1] if isinstance(exc_info, tuple) else exc_info
    if not isinstance(error, BaseException):
        return text
    return f"{text}\n{''.join(traceback.format_exception(error))}".rstrip()
