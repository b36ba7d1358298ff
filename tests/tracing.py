"""OpenTelemetry as a program configures it, for the length of a test, and the spans that it was given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.util._once import Once


class Spans:
    """What has ended, by name."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def called(self, name: str) -> list[ReadableSpan]:
        """In the order of their beginning."""
        return sorted((each for each in self.all if each.name == name), key=lambda each: each.start_time or 0)

    def one(self, name: str) -> ReadableSpan:
        (found,) = self.called(name)
        return found


@contextmanager
def traced(monkeypatch: pytest.MonkeyPatch, sampler: Sampler | None = None) -> Iterator[Spans]:
    """The API takes a provider once a process, so it is put where the API looks."""
    spans = Spans(sampler)
    with monkeypatch.context() as patch:
        patch.setattr(trace, "_TRACER_PROVIDER", spans.provider)
        yield spans
    spans.provider.shutdown()


def unconfigured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the test configure OpenTelemetry by itself; what it does ends with it."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def traceparent(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"
