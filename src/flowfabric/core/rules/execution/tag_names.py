"""Which names a tag may have; `lib/record/tags.lua` decides the same."""

from __future__ import annotations

from flowfabric.core import limits
from flowfabric.errors import InvalidInput


def is_tag_name(name: str) -> bool:
    """Whether `name` is text of a permitted length without control characters."""
    try:
        limits.label("tags", name, 1, limits.TAG_KEY_MAX_BYTES)
    except InvalidInput:
        return False
    return True
