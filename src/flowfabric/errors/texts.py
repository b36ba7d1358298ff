"""Ids of executions in texts for people: `86-<uuid>` in place of `{fp:86}:<uuid>`, the form of the store."""

from __future__ import annotations

import re
from typing import Final

_STORED: Final = re.compile(r"\{fp:(\d+)\}:([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")


def with_short_ids(text: str) -> str:
    """The text with every id of an execution in its short form."""
    return _STORED.sub(r"\1-\2", text) if "{fp:" in text else text
