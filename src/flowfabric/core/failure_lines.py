"""A kept exception as lines of text: the exception first, then what was behind it."""

from __future__ import annotations

from collections.abc import Iterator

from flowfabric.core.contracts.failures import FailureDetail


def failure_lines(detail: FailureDetail) -> Iterator[str]:
    """The lines, like those of a traceback; the most recent call is the last of its exception."""
    said = f": {detail.message}" if detail.message else ""
    yield from f"{detail.type}{said}".splitlines()
    for note in detail.notes:
        yield from (f"  {line}" for line in note.splitlines())
    yield from _frames(detail)
    for at, member in enumerate(detail.members, 1):
        yield from _below(f"member {at}: ", member)
    if detail.members_left_out:
        yield f"  and {detail.members_left_out} more members"
    if detail.cause is not None:
        yield from _below("caused by ", detail.cause)
    if detail.context is not None:
        yield from _below("while handling ", detail.context)


def _frames(detail: FailureDetail) -> Iterator[str]:
    gap = len(detail.frames) // 2 if detail.frames_left_out else -1
    for at, frame in enumerate(detail.frames):
        if at == gap:
            yield f"  … {detail.frames_left_out} calls left out"
        yield f'  File "{frame.file}", line {frame.line}, in {frame.function}'
        if frame.source:
            yield f"    {frame.source}"


def _below(how: str, detail: FailureDetail) -> Iterator[str]:
    first, *rest = failure_lines(detail)
    yield f"  {how}{first}"
    yield from (f"  {line}" for line in rest)
