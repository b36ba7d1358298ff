"""The HTTP server: every port as an API, live streams, workers in any language, and the dashboard."""

from __future__ import annotations

from flowfabric.server.app import create_app
from flowfabric.server.settings import ServerSettings

__all__ = ["ServerSettings", "create_app"]
