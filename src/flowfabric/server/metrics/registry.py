"""Metrics in the text format of Prometheus: counters and histograms of this process, and gauges of a moment."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

Labels = tuple[tuple[str, str], ...]


class Sample(NamedTuple):
    """One line: the name, its labels and a number."""

    labels: Labels
    value: float
    suffix: str = ""


class Family(NamedTuple):
    """All samples of one name."""

    name: str
    kind: str
    help: str
    samples: Iterable[Sample]

    def lines(self) -> Iterable[str]:
        found = [f"{self.name}{each.suffix}{_labels(each.labels)} {_number(each.value)}" for each in self.samples]
        if not found:
            return ()
        return (f"# HELP {self.name} {self.help}", f"# TYPE {self.name} {self.kind}", *found)


class Histogram:
    """How long something took, in buckets."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_SECONDS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(_SECONDS, seconds)] += 1
        self._sum += seconds

    def samples(self, labels: Labels = ()) -> list[Sample]:
        found, total = [], 0
        for bound, count in zip((*map(str, _SECONDS), "+Inf"), self._counts, strict=True):
            total += count
            found.append(Sample((*labels, ("le", bound)), total, "_bucket"))
        return [*found, Sample(labels, self._sum, "_sum"), Sample(labels, total, "_count")]


class Requests:
    """The requests that this server has answered, by operation."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, int]] = Counter()
        self._took: dict[str, Histogram] = {}

    def note(self, operation: str, status: int, seconds: float) -> None:
        self._answers[operation, status] += 1
        took = self._took.get(operation)
        if took is None:
            took = self._took[operation] = Histogram()
        took.observe(seconds)

    def families(self) -> list[Family]:
        answers = [
            Sample((("operation", name), ("status", str(status))), count)
            for (name, status), count in sorted(self._answers.items())
        ]
        took = [sample for name, each in sorted(self._took.items()) for sample in each.samples((("operation", name),))]
        return [
            Family("flowfabric_http_requests_total", "counter", "Requests by operation and status.", answers),
            Family("flowfabric_http_request_seconds", "histogram", "How long answers took; not of streams.", took),
        ]


def counted(name: str, help_text: str, label: str, counts: Mapping[str, float]) -> Family:
    """A counter with one label."""
    return Family(name, "counter", help_text, [Sample(((label, each),), count) for each, count in counts.items()])


def text(families: Iterable[Family]) -> str:
    return "".join(f"{line}\n" for family in families for line in family.lines())


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
