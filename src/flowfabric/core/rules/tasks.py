"""Which worker may take which task.

A worker that names its tasks is given no others. Work of a task that no worker of its lane has waits in a queue of its
own: its record requires a capability that names the task. A worker that names no tasks may take anything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from flowfabric.core.capability import missing

_TOKEN: Final = "ff.task:"  # noqa: S105 - a capability, not a secret
_SPECIAL: Final = re.compile(rb"[^A-Za-z0-9._:/-]")


def escaped(kind: str) -> str:
    """The name of a task as part of a token, which has neither commas nor spaces."""
    return _SPECIAL.sub(lambda found: b"%%%02X" % found[0][0], kind.encode()).decode()


def unescaped(name: str) -> str:
    """The inverse of `escaped`."""
    return unquote(name, errors="replace")


def token_of(kind: str) -> str:
    """The capability that work of this task requires once a worker without it has met it."""
    return _TOKEN + escaped(kind)


def is_task_token(token: str) -> bool:
    return token.startswith(_TOKEN)


@lru_cache(maxsize=256)
def kinds_text(kinds: tuple[str, ...]) -> str:
    """The tasks of a worker as a claim names them."""
    return f",{','.join(map(escaped, kinds))}," if kinds else ""


def lacks(required: Iterable[str], offered: Iterable[str], kinds: Collection[str] = ()) -> tuple[str, ...]:
    """The capabilities that a worker lacks; its tasks count as capabilities, and without names it has all tasks."""
    has = {token_of(kind) for kind in kinds}
    needed = [token for token in required if kinds or not is_task_token(token)]
    return missing(needed, {*offered, *has})


def has_task(kinds: Collection[str], kind: str) -> bool:
    """Whether a worker with these tasks may take this one."""
    return not kinds or kind in kinds
