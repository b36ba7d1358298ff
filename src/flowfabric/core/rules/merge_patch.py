"""JSON merge patch (RFC 7396) on values: the summary of an attempt is patched with it.

`lib/base/merge_patch.lua` states the same rule on text, so that no number loses digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowfabric.core.rules.outcome import Refusal

MAX_DEPTH = 16
# A patch cannot set a member to null, because null removes it: this text stands for null.
NULL = "__ff_null__"


def apply(document: Mapping[str, Any], patch: object) -> dict[str, Any] | Refusal:
    """The patched document; refused if the patch is not an object or has too many levels."""
    if not isinstance(patch, Mapping):
        return Refusal("invalid_input", {"field": "payload", "problem": "a JSON object"})
    if _depth(patch) > MAX_DEPTH:
        return Refusal("invalid_input", {"field": "payload", "problem": f"at most {MAX_DEPTH} levels"})
    return _merge(document, patch)


def _depth(patch: Mapping[str, Any]) -> int:
    return 1 + max((_depth(value) for value in patch.values() if isinstance(value, Mapping)), default=0)


def _merge(target: object, patch: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            merged[key] = _merge(merged.get(key), value)
        else:
            merged[key] = None if value == NULL else value
    return merged


def joined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any] | None:
    """One patch with the effect of both in turn; None if there is none.

    There is none where the first one replaces or removes a member that the second one patches: a patch can merge
    an object into a member, but not replace the member by an object.
    """
    both = dict(first)
    for key, value in second.items():
        before = both.get(key)
        if key in both and isinstance(value, Mapping):
            if not isinstance(before, Mapping):
                return None
            inner = joined(before, value)
            if inner is None:
                return None
            both[key] = inner
        else:
            both[key] = value
    return both
