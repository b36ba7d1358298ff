"""Fixed paths that would match a route with a parameter: `executions/bulk` is not an execution."""

from __future__ import annotations

from starlette.routing import Match, Route
from starlette.types import Scope


class ExactRoute(Route):
    """Handles every request for its path; other methods are refused and reach no other route."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        return (Match.FULL if match is Match.PARTIAL else match), found
