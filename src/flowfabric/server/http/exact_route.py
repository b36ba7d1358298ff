"""Addresses that look like one with a parameter, and are none: `executions/bulk` is no execution."""

from __future__ import annotations

from starlette.routing import Match, Route
from starlette.types import Scope


class ExactRoute(Route):
    """Takes every request for its path; those of other methods are refused, and reach no other route."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        return (Match.FULL if match is Match.PARTIAL else match), found
