"""Tags: the caller's labels. Any printable name will do; `team.ticket` keeps those of several teams apart."""

from __future__ import annotations

from collections.abc import Mapping

from flowfabric.core import limits
from flowfabric.core.rules.execution.tag_names import is_tag_name
from flowfabric.errors import InvalidInput


def tag_key(key: object, field: str = "tags") -> str:
    """`key` if it is a short line of text."""
    if isinstance(key, str) and is_tag_name(key):
        return key
    problem = f"a tag's name must be printable text of 1 to {limits.TAG_KEY_MAX_BYTES} bytes"
    raise InvalidInput(field, key, problem, code="invalid_tag_key")


def tag_map(tags: object, field: str = "tags") -> dict[str, str]:
    """The tags in key order, so that equal sets travel as equal bytes."""
    if not isinstance(tags, Mapping):
        raise InvalidInput(field, tags, "must map tag keys to text")
    if len(tags) > limits.MAX_TAGS:
        raise InvalidInput(field, len(tags), f"must hold at most {limits.MAX_TAGS} tags")
    keys = sorted(tag_key(key, field) for key in tags)
    return {key: limits.text(f"{field}[{key}]", tags[key], 0, limits.TAG_VALUE_MAX_BYTES) for key in keys}
