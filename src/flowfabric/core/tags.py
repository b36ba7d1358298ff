"""Tags: the caller's labels, under the caller's own prefix (`team.ticket`), never the library's."""

from __future__ import annotations

import re
from collections.abc import Mapping

from flowfabric.core import limits
from flowfabric.errors import InvalidInput

_KEY = re.compile(r"[a-z][a-z0-9_]*\.[a-z0-9_][a-z0-9_.]*")


def tag_key(key: object, field: str = "tags") -> str:
    """`key` if it has a prefix, a dot and a name; the library's record fields have no dot, so they never clash."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        problem = "a tag key must look like team.key, in lower-case letters, digits, '_' and '.'"
        raise InvalidInput(field, key, problem, code="invalid_tag_key")
    if len(key) > limits.TAG_KEY_MAX_BYTES:
        problem = f"a tag key must be at most {limits.TAG_KEY_MAX_BYTES} bytes long"
        raise InvalidInput(field, key, problem, code="invalid_tag_key")
    return key


def tag_map(tags: object, field: str = "tags") -> dict[str, str]:
    """The tags in key order, so that equal sets travel as equal bytes."""
    if not isinstance(tags, Mapping):
        raise InvalidInput(field, tags, "must map tag keys to text")
    if len(tags) > limits.MAX_TAGS:
        raise InvalidInput(field, len(tags), f"must hold at most {limits.MAX_TAGS} tags")
    keys = sorted(tag_key(key, field) for key in tags)
    return {key: limits.text(f"{field}[{key}]", tags[key], 0, limits.TAG_VALUE_MAX_BYTES) for key in keys}
