"""The HTTP server: every port as an API, live streams, workers in any language, and the dashboard.

Nothing is imported here, so that the command line needs the server's dependencies only where it serves.
"""
