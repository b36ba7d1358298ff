"""No secret is ever logged: every log record and every line of stderr of the whole test run is looked at.

Tokens and secrets are known by their looks: a bearer token by its prefix, a waitpoint token and a signing secret by
their many hex digits, a password by its place in a URL.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest

SECRET = re.compile(r"fft_[\w-]{20,}|[0-9a-f]{40,}|://[^/\s:@]*:(?!\*)[^/\s:@]+@")


class _Watch(logging.Handler):
    """Remembers where a record told a secret."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.leaks: list[str] = []
        self._format = logging.Formatter("%(name)s: %(message)s").format

    def emit(self, record: logging.LogRecord) -> None:
        told = f"{self._format(record)} {record.__dict__.get('audit', '')}"
        if SECRET.search(told):
            self.leaks.append(told)

    def take(self) -> list[str]:
        leaks, self.leaks = self.leaks, []
        return leaks


_watch = _Watch()


@pytest.fixture(autouse=True)
def _secrets_in_logs() -> Iterator[None]:
    """All that the package and its server log, whatever its level; commands replace the handlers of the root."""
    loggers = [logging.getLogger(name) for name in ("flowfabric", "uvicorn")]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.addHandler(_watch)
        each.setLevel(logging.DEBUG)
    yield
    for each, level in zip(loggers, levels, strict=True):
        each.removeHandler(_watch)
        each.setLevel(level)
    leaks = _watch.take()
    assert not leaks, f"secrets were logged: {leaks}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Processes that a test starts write to its stderr."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    told = next((text for name, text in report.sections if name == f"Captured stderr {report.when}"), "")
    if report.passed and (found := SECRET.search(told)):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: a secret was written to stderr: {found[0][:12]}..."
    return report  # type: ignore[return-value]
