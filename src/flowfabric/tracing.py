"""Spans for programs that configured OpenTelemetry; for all others each call costs one lookup in `sys.modules`.

A program that configured OpenTelemetry has imported it. Nothing is imported here before that, and the package may be
missing. The span context travels as W3C trace context: in the tags of an execution, in the correlation id of a signal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias

from flowfabric.errors.texts import with_short_ids

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry import trace
    from opentelemetry.context import Context

Kind: TypeAlias = Literal["PRODUCER", "CONSUMER", "INTERNAL", "SERVER"]
Carrier: TypeAlias = Mapping[str, str]  # traceparent, and tracestate where there is one

OURS: Final = "flowfabric."  # how our attributes and tags begin

_API: Final = "opentelemetry.trace"
_PARENT, _STATE = "traceparent", "tracestate"
_STATE_MAX: Final = 512  # the length that W3C requires every system to pass on
_NOTHING: Final[Carrier] = {}


class Span:
    """The span that does nothing, used where tracing is off."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the span; an exception marks it as failed."""

    def note(self, **facts: str | int | None) -> None:
        """Set attributes; the names get the prefix `flowfabric.`."""

    def fail(self, reason: str, error: BaseException | None = None) -> None:
        """Mark the span as failed."""

    def answer(self, method: str, route: str | None, status: int) -> None:
        """Record the route and the status of a response."""


NO_SPAN: Final = Span()


class _OpenSpan(Span):
    """An OpenTelemetry span: current inside its `with` block, ended at its end."""

    __slots__ = ("_context", "_span", "_token")

    def __init__(self, span: trace.Span, context: Context | None = None) -> None:
        from opentelemetry import trace  # noqa: PLC0415

        self._span = span
        self._context = trace.set_span_in_context(span, context)
        self._token: Token[Context] | None = None

    def __enter__(self) -> Self:
        from opentelemetry import context  # noqa: PLC0415

        self._token = context.attach(self._context)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from opentelemetry import context  # noqa: PLC0415

        if self._token is not None:
            context.detach(self._token)
        if isinstance(error, Exception):  # a cancelled call has not failed
            self.fail(_said(error), error)
        self._span.end()

    def note(self, **facts: str | int | None) -> None:
        self._span.set_attributes(_attributes(facts))

    def fail(self, reason: str, error: BaseException | None = None) -> None:
        from opentelemetry.trace import StatusCode  # noqa: PLC0415

        self._span.set_status(StatusCode.ERROR, reason)
        if error is not None:
            with suppress(Exception):  # the error fails to format its message
                self._span.record_exception(error)

    def answer(self, method: str, route: str | None, status: int) -> None:
        if route:
            self._span.update_name(f"{method} {route}")
            self._span.set_attribute("http.route", route)
        self._span.set_attribute("http.response.status_code", status)
        if status >= 500:
            self.fail(f"answered with {status}")


def is_on() -> bool:
    """Whether the program has configured OpenTelemetry."""
    return _tracer() is not None


def span(verb: str, name: str, kind: Kind = "INTERNAL", **facts: str | int | None) -> Span:
    """A child of the current span, called `verb name`."""
    tracer = _tracer()
    return NO_SPAN if tracer is None else _opened(tracer, f"{verb} {name}", kind, _attributes(facts))


def run_span(name: str, tags: Mapping[str, str], correlation_ids: Iterable[str | None], **facts: str | int) -> Span:
    """For a pass of an attempt: a child of the span that the tags name, linked to those that signalled."""
    tracer = _tracer()
    if tracer is None:
        return NO_SPAN
    carrier = {key: tags[OURS + key] for key in (_PARENT, _STATE) if OURS + key in tags}
    links = list(_senders(correlation_ids))
    return _opened(tracer, f"run {name}", "CONSUMER", _attributes(facts), _context_of(carrier), links)


def request_span(method: str, headers: Iterable[tuple[bytes, bytes]]) -> Span:
    """For a request to a server: a child of the span that its headers name."""
    tracer = _tracer()
    if tracer is None:
        return NO_SPAN
    given = ((key.decode("latin-1"), value.decode("latin-1")) for key, value in headers)
    carrier = {key: value for key, value in given if key in (_PARENT, _STATE)}
    return _opened(tracer, method, "SERVER", {"http.request.method": method}, _context_of(carrier))


def link(correlation_ids: Iterable[str | None]) -> None:
    """Link the current span to those that sent these signals."""
    if _tracer() is None:
        return
    from opentelemetry import trace  # noqa: PLC0415

    for sender in _senders(correlation_ids):
        trace.get_current_span().add_link(sender)


def current() -> Carrier:
    """The trace context of the current span for other processes; empty without a span."""
    api = sys.modules.get(_API)
    if api is None or not api.get_current_span().get_span_context().is_valid:
        return _NOTHING
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    if len(carrier.get(_STATE, "")) > _STATE_MAX:
        del carrier[_STATE]
    return carrier


def current_parent() -> str | None:
    """The `traceparent` of the current span."""
    return current().get(_PARENT)


@contextmanager
def restored(carrier: Carrier) -> Iterator[None]:
    """Make the span of another process current."""
    if not carrier:
        yield
        return
    from opentelemetry import context  # noqa: PLC0415

    token = context.attach(_context_of(carrier))
    try:
        yield
    finally:
        context.detach(token)


def _tracer() -> trace.Tracer | None:
    api = sys.modules.get(_API)
    if api is None:
        return None
    provider = api.get_tracer_provider()
    if type(provider) is api.ProxyTracerProvider:  # no provider is set
        return None
    return _tracer_of(provider)


@lru_cache(maxsize=1)
def _tracer_of(provider: trace.TracerProvider) -> trace.Tracer | None:
    from opentelemetry.trace import NoOpTracer  # noqa: PLC0415

    tracer = provider.get_tracer("flowfabric")
    return None if isinstance(tracer, NoOpTracer) else tracer  # tracing may be switched off


def _opened(
    tracer: trace.Tracer,
    name: str,
    kind: Kind,
    attributes: dict[str, str | int],
    context: Context | None = None,
    links: Iterable[trace.SpanContext] = (),
) -> Span:
    """Without a context, a child of the current span."""
    from opentelemetry.trace import Link, SpanKind  # noqa: PLC0415

    begun = tracer.start_span(name, context, SpanKind[kind], attributes, [Link(each) for each in links])
    return _OpenSpan(begun, context)


def _context_of(carrier: Carrier) -> Context:
    """A context that holds only the span of the carrier, if it names one."""
    from opentelemetry.context import Context  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    return TraceContextTextMapPropagator().extract(carrier, Context())


def _senders(correlation_ids: Iterable[str | None]) -> Iterator[trace.SpanContext]:
    """The spans named by correlation ids; ids of untraced senders name none."""
    from opentelemetry import trace  # noqa: PLC0415

    for each in correlation_ids:
        sender = trace.get_current_span(_context_of({_PARENT: each or ""})).get_span_context()
        if sender.is_valid:
            yield sender


def _attributes(facts: Mapping[str, str | int | None]) -> dict[str, str | int]:
    # Exporters do not know our subclasses of str. Ids are written as in logs, so that one search finds both.
    plain = {name: with_short_ids(str(value)) if isinstance(value, str) else value for name, value in facts.items()}
    return {OURS + name: value for name, value in plain.items() if value is not None}


def _said(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # the error fails to format its message
        return type(error).__name__
